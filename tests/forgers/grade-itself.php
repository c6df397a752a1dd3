<?php
/*
tries: Lets a second grader grade an easy test with a secret of its own, and passes that verdict on.
acceptable: [crash, fail, tampered]
*/

$channel = forger_sockets();
$pair    = array();
socket_create_pair( AF_UNIX, SOCK_STREAM, 0, $pair );
$easy = array( 'static_checks' => array(), 'assertions' => array(), 'teardown' => '', 'secret' => 'known' );
socket_write( $pair[1], json_encode( $easy ) . "\n" );
$limits = array( 'seconds' => 5, 'memory' => 1 << 28, 'output' => 100 );
foreach ( $channel as $socket ) {
	$pair[0] = $socket;
}
Refcompare\Grader::run( array( 'nonce' => 'mine', 'setup' => '', 'code' => '', 'files' => null, 'limits' => $limits ), $pair[0] );
