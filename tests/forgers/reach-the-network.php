<?php
/*
tries: Looks for somebody outside, on the machine and in other sandboxes, who may tell or be told.
acceptable: [fail]
seconds: 20
*/

$ways = array(
	static fn () => stream_socket_client( 'tcp://127.0.0.1:80', $number, $text, 1 ),
	static fn () => stream_socket_client( 'tcp://[::1]:80', $number, $text, 1 ),
	static fn () => stream_socket_client( 'udp://8.8.8.8:53', $number, $text, 1 ),
	static fn () => stream_socket_server( 'tcp://0.0.0.0:4711' ),
	static fn () => stream_socket_client( 'unix:///var/run/docker.sock', $number, $text, 1 ),
	static fn () => stream_socket_client( "unix://\0/tmp/.X11-unix/X0", $number, $text, 1 ),
	static fn () => fsockopen( 'localhost', 22, $number, $text, 1 ),
	static fn () => socket_create( AF_INET, SOCK_RAW, 1 ),
	static fn () => socket_create( AF_INET, SOCK_DGRAM, 0 ),
	static fn () => file_get_contents( 'http://169.254.169.254/' ),
	static fn () => is_array( wp_remote_get( 'http://localhost:8888/' ) ),
	static fn () => 'example.org' !== gethostbyname( 'example.org' ),
	static fn () => dns_get_record( 'example.org', DNS_A ),
	static fn () => wp_mail( 'a@example.org', 'forge', 'forge' ),
);
foreach ( $ways as $number => $way ) {
	try {
		if ( $way() ) {
			forger_saw( "CANARY-reached-$number" );
		}
	} catch ( Throwable $denied ) {
		continue;
	}
}
