<?php
/**
 * The resident grader. Started once as `wp --require=boot.php eval-file worker.php --use-include`,
 * it boots WordPress, says so, and then answers one grading request at a time until its input ends.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

require_once __DIR__ . '/src/class-site.php';
require_once __DIR__ . '/src/class-describe.php';
require_once __DIR__ . '/src/class-evaluator.php';
require_once __DIR__ . '/src/class-integrity.php';
require_once __DIR__ . '/src/class-static-analysis.php';
require_once __DIR__ . '/src/class-assertions.php';
require_once __DIR__ . '/src/class-plugin-installer.php';
require_once __DIR__ . '/src/class-grader.php';
require_once __DIR__ . '/src/class-worker.php';

Worker::serve();
