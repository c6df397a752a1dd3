<?php
/*
tries: Says more than anybody would read.
acceptable: [tampered, timeout]
seconds: 2
*/

$noise = str_repeat( 'x', 65536 );
for ( $round = 0; $round < 400; $round++ ) {
	forger_send( $noise );
}
