<?php
/*
tries: Shuts the channel down, so that the grader cannot speak.
acceptable: [crash, tampered, timeout]
*/

foreach ( forger_sockets() as $socket ) {
	socket_shutdown( $socket, 2 );
}
