<?php
/*
tries: Changes the priority, the limits and the session of its parent.
acceptable: [fail]
*/

$parent = posix_getppid();
foreach (
	array(
		'pcntl_setpriority'     => array( 19, $parent ),
		'proc_nice'             => array( 19 ),
		'posix_setpgid'         => array( $parent, getmypid() ),
		'posix_setsid'          => array(),
		'posix_setuid'          => array( 0 ),
		'posix_seteuid'         => array( 0 ),
		'posix_setgid'          => array( 0 ),
		'posix_initgroups'      => array( 'root', 0 ),
		'pcntl_setcpuaffinity'  => array( $parent, array( 0 ) ),
		'pcntl_unshare'         => array( 0x10000000 ),
		'pcntl_setns'           => array( 1, 0x20000000 ),
	) as $function => $arguments
) {
	try {
		if ( function_exists( $function ) && $function( ...$arguments ) && ! str_starts_with( $function, 'posix_set' ) ) {
			forger_saw( "CANARY-steered-$function" );
		}
	} catch ( Throwable $denied ) {
		continue;
	}
}
