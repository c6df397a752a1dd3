<?php
/**
 * What a harness does that resets the site for every test: one process, one test, then the end.
 *
 * The yardstick of the benchmarks. It uses the grader's own assertions, so that both sides of a
 * ratio do the same work.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

foreach ( \glob( \getenv( 'REFCOMPARE_GRADER' ) . '/src/*.php' ) as $refcompare_file ) {
	require_once $refcompare_file;
}

$refcompare_test = \json_decode( (string) \file_get_contents( (string) \getenv( 'REFCOMPARE_TEST' ) ), true );
Evaluator::arm();
Evaluator::evaluate( $refcompare_test['setup'] );
Evaluator::evaluate( $refcompare_test['code'] );
$refcompare_passed = true;
foreach ( $refcompare_test['assertions'] as $refcompare_assertion ) {
	$refcompare_passed = Assertions::run( $refcompare_assertion, $refcompare_test['code'] )['passed'] && $refcompare_passed;
}
\fwrite( STDOUT, $refcompare_passed ? "pass\n" : "fail\n" );
