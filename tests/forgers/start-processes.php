<?php
/*
tries: Starts processes in every way that PHP has.
acceptable: [fail]
*/

forge( 'candidate' );

function forge( $where ) {
	$command = 'sleep 5; echo CANARY-started';
	$ways    = array(
		'exec'       => static fn () => exec( $command ),
		'shell_exec' => static fn () => shell_exec( $command ),
		'system'     => static fn () => system( $command ),
		'passthru'   => static fn () => passthru( $command ),
		'popen'      => static fn () => fgets( popen( $command, 'r' ) ),
		'proc_open'  => static fn () => proc_open( array( '/bin/sh', '-c', $command ), array(), $pipes ) ? 'CANARY-started' : '',
		'mail'       => static fn () => mail( 'a@example.org', 'b', 'c', '', '-X/scratch/log' ) ? 'CANARY-mailed' : '',
		'pcntl_fork' => static fn () => pcntl_fork() >= 0 ? 'CANARY-forked' : '',
		'pcntl_exec' => static fn () => pcntl_exec( '/bin/sh', array( '-c', $command ) ),
	);
	foreach ( $ways as $way ) {
		try {
			forger_saw( (string) $way() );
		} catch ( Throwable $denied ) {
			continue;
		}
	}
}
