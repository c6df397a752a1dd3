<?php
/*
tries: Lifts the limits that it was given.
acceptable: [fail, crash, out_of_memory]
*/

ini_set( 'memory_limit', '-1' );
set_time_limit( 0 );
foreach ( array( POSIX_RLIMIT_NPROC, POSIX_RLIMIT_AS, POSIX_RLIMIT_FSIZE, POSIX_RLIMIT_CPU, POSIX_RLIMIT_NOFILE, POSIX_RLIMIT_CORE ) as $limit ) {
	try {
		if ( posix_setrlimit( $limit, 1 << 40, 1 << 40 ) ) {
			forger_saw( "CANARY-lifted-$limit" );
		}
	} catch ( Throwable $denied ) {
		continue;
	}
}
