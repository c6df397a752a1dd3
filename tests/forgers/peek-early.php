<?php
/*
tries: Reads what waits in every descriptor while it has its turn, and goes on for a while.
acceptable: [fail]
*/

for ( $tries = 0; $tries < 20; $tries++ ) {
	forger_peek();
	usleep( 2000 );
}

function forge( $where ) {
	forger_peek();
}
