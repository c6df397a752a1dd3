<?php
/*
tries: Leaves no memory to receive the assertions in, and reads them in a shutdown function.
acceptable: [fail, out_of_memory, crash]
*/

register_shutdown_function(
	static function () {
		unset( $GLOBALS['forge_ballast'] );
		for ( $tries = 0; $tries < 50 && '' === forger_peek(); $tries++ ) {
			usleep( 10000 );
		}
	}
);
// PHP asks the system for 2 MiB at a time. Fill what it has, and the next of these but for a few
// pages, and let it ask for no more: the line with the assertions then finds no room.
$GLOBALS['forge_ballast'] = new SplFixedArray( 4000 );
$count                    = 0;
$before                   = memory_get_usage( true );
while ( memory_get_usage( true ) === $before ) {
	$GLOBALS['forge_ballast'][ $count++ ] = str_repeat( 'x', 65000 );
}
foreach ( array( 65000 => 29, 16000 => 7 ) as $size => $blocks ) {
	while ( $blocks-- > 0 ) {
		$GLOBALS['forge_ballast'][ $count++ ] = str_repeat( 'x', $size );
	}
}
ini_set( 'memory_limit', (string) memory_get_usage( true ) );
