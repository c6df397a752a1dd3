<?php
/*
tries: Leaves text, a lock and an offset on standard error, and puts another file in its place.
acceptable: [fail]
tests: [function, options, output]
*/

fwrite( STDERR, str_repeat( 'a message to the next one ', 5000 ) );
flock( STDERR, LOCK_EX | LOCK_NB );
stream_set_blocking( STDERR, false );
foreach ( array( 'touch', 'chmod', 'rename' ) as $way ) {
	try {
		if ( 'touch' === $way ) {
			touch( '/scratch/output', 4711, 4711 );
		} elseif ( 'chmod' === $way ) {
			chmod( '/scratch/output', 0640 );
		} else {
			rename( '/scratch/output', '/scratch/kept' );
			link( '/scratch/kept', '/tmp/kept' );
			file_put_contents( '/scratch/output', 'another file' );
		}
	} catch ( Throwable $denied ) {
		continue;
	}
}
