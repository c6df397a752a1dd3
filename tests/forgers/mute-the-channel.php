<?php
/*
tries: Makes the grader's channel non-blocking and gives it a time limit, so that the grader fails before an observer of its own.
acceptable: [fail]
*/

foreach ( forger_sockets() as $socket ) {
	socket_set_nonblock( $socket );
	socket_set_option( $socket, SOL_SOCKET, SO_RCVTIMEO, array( 'sec' => 0, 'usec' => 1 ) );
}
register_shutdown_function(
	static function () {
		usleep( 50000 );
		forger_peek();
	}
);
