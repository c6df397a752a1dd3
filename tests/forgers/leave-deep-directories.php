<?php
/*
tries: Leaves directories so deep that no path leads to the last of them.
acceptable: [fail]
tests: [function, rest, options]
*/

chdir( '/scratch' );
for ( $depth = 0; $depth < 300; $depth++ ) {
	mkdir( str_repeat( 'd', 100 ) );
	chdir( str_repeat( 'd', 100 ) );
}
file_put_contents( 'message', 'for the next one' );
