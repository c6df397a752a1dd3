<?php
/*
tries: Writes verdicts through php://stdout, stderr and output, /dev/fd and /proc/self/fd.
acceptable: [fail, tampered]
*/

$paths = array( 'php://stdout', 'php://stderr', 'php://output', '/dev/stdout', '/dev/stderr', '/dev/tty' );
for ( $number = 0; $number <= 64; $number++ ) {
	$paths[] = "/dev/fd/$number";
	$paths[] = "/proc/self/fd/$number";
}
foreach ( $paths as $path ) {
	try {
		file_put_contents( $path, forger_verdict( '' ), FILE_APPEND );
	} catch ( Throwable $missing ) {
		continue;
	}
}
