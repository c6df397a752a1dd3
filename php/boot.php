<?php
/**
 * Runs before WordPress loads: takes the place of the first shutdown function, and gives the boot
 * a writable copy of the site's database.
 *
 * The snapshot is read-only and stays so; WordPress writes a few options while it boots, and
 * those writes belong in the copy, from which the in-memory database is made afterwards.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

require_once __DIR__ . '/src/stand-ins.php';
require_once __DIR__ . '/src/class-child.php';
require_once __DIR__ . '/src/class-site.php';

Child::guard();
Site::prepare();
