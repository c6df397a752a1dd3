<?php
/*
tries: Leaves marks on files that were open before the fork, and on the directories themselves.
acceptable: [fail]
*/

foreach ( forger_descriptors() as $stream ) {
	try {
		flock( $stream, LOCK_EX | LOCK_NB );
		fseek( $stream, 4711 );
		stream_set_blocking( $stream, true );
	} catch ( Throwable $refused ) {
		continue;
	}
}
foreach ( array( '/scratch', '/tmp', '/site/wp-content', '/wp-cli.phar', '/snapshot.sqlite' ) as $path ) {
	try {
		touch( $path, 4711, 4711 );
		chmod( $path, 0711 );
	} catch ( Throwable $refused ) {
		continue;
	}
}
$GLOBALS['forge_lock'] = fopen( '/wp-cli.phar', 'r' );
flock( $GLOBALS['forge_lock'], LOCK_EX | LOCK_NB );
