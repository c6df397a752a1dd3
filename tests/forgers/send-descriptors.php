<?php
/*
tries: Passes descriptors of its own over the channel, so that its parent reads from them.
acceptable: [tampered]
*/

$pair = array();
socket_create_pair( AF_UNIX, SOCK_STREAM, 0, $pair );
foreach ( forger_sockets() as $socket ) {
	$control = array( 'level' => SOL_SOCKET, 'type' => SCM_RIGHTS, 'data' => array( $pair[0], fopen( '/scratch/trap', 'w+' ) ) );
	socket_sendmsg( $socket, array( 'iov' => array( '{"nonce":1}' . "\n" ), 'control' => array( $control ) ), 0 );
}
socket_write( $pair[1], forger_verdict( '' ) );
