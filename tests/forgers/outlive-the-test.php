<?php
/*
tries: Forks a child that waits for the next test and answers in its place.
acceptable: [fail, crash, tampered]
*/

for ( $tries = 0; $tries < 50; $tries++ ) {
	try {
		if ( 0 === pcntl_fork() ) {
			posix_setsid();
			while ( true ) {
				forger_send( forger_verdict( '' ) );
				forger_peek();
			}
		}
	} catch ( Throwable $denied ) {
		continue;
	}
}
