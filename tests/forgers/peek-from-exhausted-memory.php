<?php
/*
tries: Leaves no memory to receive the assertions in, and reads them in a shutdown function.
acceptable: [fail, out_of_memory, crash]
*/

ini_set( 'memory_limit', (string) ( memory_get_usage( true ) + ( 4 << 20 ) ) );
$GLOBALS['forge_ballast'] = array();
while ( memory_get_usage( true ) + ( 2 << 20 ) < (int) ini_get( 'memory_limit' ) ) {
	$GLOBALS['forge_ballast'][] = str_repeat( 'x', 1 << 18 );
}
register_shutdown_function(
	static function () {
		unset( $GLOBALS['forge_ballast'] );
		for ( $tries = 0; $tries < 50 && '' === forger_peek(); $tries++ ) {
			usleep( 10000 );
		}
	}
);
