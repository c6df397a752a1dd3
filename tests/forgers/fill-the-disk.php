<?php
/*
tries: Fills every place that can be written to.
acceptable: [fail, crash]
seconds: 20
tests: [function, rest, options]
*/

$block = str_repeat( 'x', 1 << 20 );
foreach ( array( '/tmp', '/site/wp-content', '/scratch' ) as $directory ) {
	for ( $file = 0; $file < 4; $file++ ) {
		try {
			for ( $part = 0; $part < 50; $part++ ) {
				file_put_contents( "$directory/fill-$file", $block, FILE_APPEND );
			}
		} catch ( Throwable $full ) {
			break;
		}
	}
}
