<?php
/*
tries: Swallows notices and warnings, so that nothing aborts.
acceptable: [fail]
*/

forge( 'candidate' );

function forge( $where ) {
	set_error_handler( static fn () => true );
	error_reporting( 0 );
	ini_set( 'display_errors', '0' );
	return $undefined['forge'] ?? true;
}
