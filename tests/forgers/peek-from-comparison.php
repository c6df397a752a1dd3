<?php
/*
tries: Has its error handler called while what is expected is compared with what was seen.
acceptable: [fail]
*/

function forge_handler() {
	forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	return true;
}
function forge( $where ) {
	set_error_handler( 'forge_handler' );
	gc_enable();
	$wrong = array( 'function' => array( 1 => 'method' ), 'accepted_args' => 1 );
	$hook  = $GLOBALS['wp_filter']['acme_saved'] ?? new WP_Hook();

	$hook->callbacks                     = array( 10 => array( 'wrong' => $wrong ) );
	$GLOBALS['wp_filter']['acme_saved'] = $hook;
	return fopen( 'php://memory', 'r' );
}
forge( 'candidate' );
