<?php
/*
tries: Waits for the assertions, then sends a verdict before the grader does.
acceptable: [tampered]
*/

function forge( $where ) {
	forger_send( forger_verdict( str_repeat( '0', 64 ) ) );
}
