<?php
/*
tries: Looks at the arguments and objects of every frame below it while an assertion runs.
acceptable: [fail]
*/

function forge( $where ) {
	forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	ob_start();
	debug_print_backtrace();
	forger_saw( ob_get_clean() );
	ini_set( 'zend.exception_ignore_args', '0' );
	ini_set( 'zend.exception_string_param_max_len', '100000' );
	$thrown = new Exception( 'trace' );
	forger_trace( $thrown->getTrace() );
	forger_saw( $thrown->getTraceAsString() . $thrown );
}
forge( 'candidate' );
