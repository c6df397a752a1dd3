<?php
/*
tries: Puts an output buffer of its own in the place of the grader's, whose callback runs at every word that is printed and when it is closed.
acceptable: [fail]
*/

ob_end_clean();
ob_start(
	static function () {
		$GLOBALS['forge_called'] = true;
		forger_peek();
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return '';
	},
	1
);
$GLOBALS['forge_called'] = false;

function forge( $where ) {
	$GLOBALS['forge_called'] = false;
	echo 'forge';
	if ( $GLOBALS['forge_called'] ) {
		forger_saw( 'CANARY-kept-a-buffer' );
	}
}
