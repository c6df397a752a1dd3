<?php
/*
tries: Opens as many files and sockets as it can get and keeps them.
acceptable: [fail, crash, tampered]
*/

$GLOBALS['forge_open'] = array();
try {
	while ( count( $GLOBALS['forge_open'] ) < 100000 ) {
		$GLOBALS['forge_open'][] = fopen( '/dev/null', 'r' );
	}
} catch ( Throwable $enough ) {
	unset( $enough );
}
