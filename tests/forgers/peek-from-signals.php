<?php
/*
tries: Has itself interrupted by signals, and its handlers read the channel.
acceptable: [crash, fail, tampered]
*/

foreach ( array( 'pcntl_async_signals' => array( true ), 'pcntl_signal' => array( SIGTERM, 'forger_peek' ), 'pcntl_alarm' => array( 1 ) ) as $function => $arguments ) {
	if ( function_exists( $function ) ) {
		$function( ...$arguments );
	}
}
function forge( $where ) {
	forger_peek();
}
posix_kill( getmypid(), SIGALRM );
