<?php
/*
tries: Replaces its process by a program that speaks the protocol.
acceptable: [fail, tampered]
*/

forge( 'candidate' );

function forge( $where ) {
	if ( function_exists( 'pcntl_exec' ) ) {
		pcntl_exec( PHP_BINARY, array( '-r', 'fwrite( fopen( "php://fd/5", "w" ), "{}\n" ); sleep( 1 );' ) );
	}
}
