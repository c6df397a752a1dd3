<?php
/**
 * The resident grader. Started once as `wp --require=boot.php eval-file worker.php --use-include`,
 * it boots WordPress, says so, and then answers one grading request at a time until its input ends.
 *
 * Every file of the grader is loaded here, before any candidate exists, and every function and
 * constant in them is written with its leading backslash: a candidate can declare functions and
 * constants in this namespace, and an unqualified name would find those first.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

require_once __DIR__ . '/src/class-child.php';
require_once __DIR__ . '/src/class-console.php';
require_once __DIR__ . '/src/class-site.php';
require_once __DIR__ . '/src/class-describe.php';
require_once __DIR__ . '/src/evaluate.php';
require_once __DIR__ . '/src/class-evaluator.php';
require_once __DIR__ . '/src/class-integrity.php';
require_once __DIR__ . '/src/class-static-analysis.php';
require_once __DIR__ . '/src/class-assertion-code.php';
require_once __DIR__ . '/src/class-assertions.php';
require_once __DIR__ . '/src/class-plugin-installer.php';
require_once __DIR__ . '/src/class-grader.php';
require_once __DIR__ . '/src/class-worker.php';

Worker::serve();
