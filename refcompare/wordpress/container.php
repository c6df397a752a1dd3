<?php
/**
 * Runs in a container before the worker: checks the boundary.
 *
 * Passed to `php -r` with the directories in wp-content that are mounted. It comes from
 * refcompare itself and never from a ref, since it says whether what follows may run.
 *
 * @package Refcompare
 */

declare(strict_types=1);

$status = (string) file_get_contents( '/proc/self/status' );
$wanted = array(
	'capabilities are left'         => '/^CapPrm:\s+0+$/m',
	'capabilities can be gained'    => '/^CapBnd:\s+0+$/m',
	'new privileges can be gained'  => '/^NoNewPrivs:\s+1$/m',
	'system calls are not filtered' => '/^Seccomp:\s+2$/m',
	'it runs as root'               => '/^Uid:\s+[1-9]/m',
);
$wrong  = array_keys( array_filter( $wanted, fn( $pattern ) => 1 !== preg_match( $pattern, $status ) ) );

// The kernel closes the memory file of a program that its user may run but not read, unless the
// machine's fs.suid_dumpable is 1. Through an open one, code that an assertion calls could read
// the secret that signs the verdict.
if ( false !== @fopen( '/proc/self/mem', 'r' ) ) {
	$wrong[] = 'a process can open its own memory';
}
if ( $wrong ) {
	$list = implode( ', ', $wrong );
	fwrite( STDERR, "this Docker engine does not confine a container as it was asked to: $list\n" );
	exit( 1 );
}

$below = fn( string $directory ) => new RecursiveIteratorIterator(
	new RecursiveDirectoryIterator( $directory, FilesystemIterator::SKIP_DOTS ),
	RecursiveIteratorIterator::SELF_FIRST
);

// The first reading of a file changes its access time, and would tell one candidate of another.
foreach ( array_slice( $argv, 1 ) as $directory ) {
	foreach ( $below( $directory ) as $path => $file ) {
		if ( $file->isFile() ) {
			file_get_contents( $path, false, null, 0, 1 );
		}
	}
}
