<?php
/*
tries: Claims that its turn is over, with guesses for the proof of it.
acceptable: [tampered]
*/

foreach ( array( '', '0', null, true, 0, str_repeat( '0', 64 ), array(), getmypid() ) as $guess ) {
	forger_send( json_encode( array( 'nonce' => $guess ) ) . "\n" );
}
forge_wait();

function forge_wait() {
	for ( $tries = 0; $tries < 20 && '' === forger_peek(); $tries++ ) {
		usleep( 10000 );
	}
}
