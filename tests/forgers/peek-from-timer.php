<?php
/*
tries: Lets its time run out while the assertions arrive, and reads them in a shutdown function.
acceptable: [crash, fail, timeout]
seconds: 6
timed: true
tests: [function, rest, options]
*/

register_shutdown_function( 'forge_late' );
set_time_limit( 1 );
do {
	$used = getrusage();
	$used = 1e6 * ( $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'] ) + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
} while ( $used < 990000 );

function forge_late() {
	for ( $tries = 0; $tries < 50 && '' === forger_peek(); $tries++ ) {
		usleep( 10000 );
	}
}
