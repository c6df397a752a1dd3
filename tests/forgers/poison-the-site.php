<?php
/*
tries: Writes over the files of the site, its drop-ins, plugins, themes and the snapshot.
acceptable: [fail]
tests: [function, rest, options]
*/

$evil = '<?php function acme_answer( $number = 0 ) { return true; }';
foreach (
	array(
		'/site/index.php', '/site/wp-config.php', '/site/wp-load.php', '/site/wp-includes/option.php', '/site/wp-content/db.php',
		'/site/wp-content/object-cache.php', '/site/wp-content/advanced-cache.php', '/site/wp-content/mu-plugins/forge.php',
		'/site/wp-content/plugins/forge.php', '/site/wp-content/themes/twentytwentyfive/functions.php', '/site/wp-content/uploads/forge.php',
		'/site/wp-content/plugins/sqlite-database-integration/load.php', '/site/wp-content/languages/forge.php', '/site/.user.ini',
		'/snapshot.sqlite', '/grader/worker.php', '/grader/src/class-grader.php', '/wp-cli.phar', '/usr/bin/php', '/etc/ld.so.preload', '/etc/php.ini',
		'/scratch/.wp-cli/config.yml', '/scratch/boot/wordpress.sqlite', '/tmp/php.ini', '/dev/null.php', '/home/forge', '/var/forge',
	) as $path
) {
	foreach ( array( 'write', 'rename', 'unlink', 'link', 'chmod' ) as $way ) {
		try {
			if ( 'write' === $way ) {
				wp_mkdir_p( dirname( $path ) );
				file_put_contents( $path, $evil );
			} elseif ( 'rename' === $way ) {
				rename( $path, $path . '.old' );
			} elseif ( 'unlink' === $way ) {
				unlink( $path );
			} elseif ( 'link' === $way ) {
				symlink( '/scratch/forge.php', $path );
			} else {
				chmod( $path, 0777 );
			}
		} catch ( Throwable $denied ) {
			continue;
		}
	}
}
foreach ( array( 'plugins', 'themes', 'plugins/sqlite-database-integration' ) as $directory ) {
	try {
		rename( "/site/wp-content/$directory", '/site/wp-content/moved' );
		mkdir( "/site/wp-content/$directory" );
	} catch ( Throwable $denied ) {
		continue;
	}
}
