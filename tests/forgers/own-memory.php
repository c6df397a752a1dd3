<?php
/*
tries: Reads its own memory, into which the secret must have come by now.
acceptable: [fail]
seconds: 20
*/

function forge( $where ) {
	forge_read( 'self' );
	forge_read( 'thread-self' );
}

function forge_read( $process ) {
	foreach ( array( 'maps', 'environ', 'cmdline', 'status', 'stack', 'auxv' ) as $file ) {
		try {
			$text = file_get_contents( "/proc/$process/$file" );
			forger_saw( $text );
			foreach ( 'maps' === $file ? explode( "\n", $text ) : array() as $line ) {
				if ( preg_match( '/^([0-9a-f]+)-([0-9a-f]+) rw/', $line, $range ) ) {
					$memory = fopen( "/proc/$process/mem", 'r' );
					fseek( $memory, hexdec( $range[1] ) );
					forger_saw( fread( $memory, hexdec( $range[2] ) - hexdec( $range[1] ) ) );
				}
			}
		} catch ( Throwable $denied ) {
			continue;
		}
	}
}
