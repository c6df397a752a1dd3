<?php
/*
tries: Reads the memory and the descriptors of its parent, through which the assertions pass.
acceptable: [fail]
*/

function forge( $where ) {
	foreach ( array( posix_getppid(), 1, 2, 3 ) as $process ) {
		foreach ( array( 'maps', 'mem', 'environ', 'cmdline', 'fd/0', 'fd/1', 'cwd', 'root/snapshot.sqlite' ) as $file ) {
			try {
				forger_saw( (string) file_get_contents( "/proc/$process/$file", false, null, 0, 1 << 20 ) );
			} catch ( Throwable $denied ) {
				continue;
			}
		}
	}
}
forge( 'candidate' );
