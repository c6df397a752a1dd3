<?php
/*
tries: Kills every process that it may.
acceptable: [tampered, crash]
tests: [function, rest, output]
*/

function forge( $where ) {
	foreach ( array( SIGTERM, SIGPROF, SIGKILL ) as $signal ) {
		posix_kill( -1, $signal );
	}
	forger_send( forger_verdict( '' ) );
	return true;
}
