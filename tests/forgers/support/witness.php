<?php
/*
 * What a candidate can see of those before it: files with all but their inodes, descriptors that
 * come from its parent, locks, settings, the database, and what is defined.
 *
 * Left out are the times of /scratch, in which the worker makes a file for each candidate, and what
 * differs between two boots: the times of /dev and of scheduled events.
 */

$seen = array(
	'cwd'    => getcwd(),
	'level'  => ob_get_level(),
	'locale' => setlocale( LC_ALL, '0' ),
	'limits' => posix_getrlimit(),
	'ini'    => ini_get_all( null, false ),
);
foreach ( array( '/scratch', '/tmp', '/site/wp-content', '/dev' ) as $root ) {
	$times         = in_array( $root, array( '/scratch', '/dev' ), true ) ? null : array( fileatime( $root ), filemtime( $root ) );
	$seen[ $root ] = array( fileperms( $root ), $times, disk_free_space( $root ), is_writable( $root ) );
	$directory     = new RecursiveDirectoryIterator( $root, FilesystemIterator::SKIP_DOTS );
	foreach ( new RecursiveIteratorIterator( $directory, RecursiveIteratorIterator::SELF_FIRST ) as $path => $file ) {
		if ( $file->isLink() ) {
			$seen[ $path ] = readlink( $path );
		} elseif ( substr_count( $path, '/' ) < 5 ) {
			$seen[ $path ] = array( $file->getType(), $file->getPerms(), $file->getOwner(), $file->isDir() ? null : $file->getSize() );
			if ( $file->isFile() && '/site/wp-content' === $root ) {
				$seen[ "content $path" ] = array( md5_file( $path ), $file->getMTime() );
			}
		}
	}
}
for ( $number = 0; $number < 64; $number++ ) {
	try {
		$stream = fopen( "php://fd/$number", 'r' );
	} catch ( Throwable $closed ) {
		continue;
	}
	$facts                 = stream_get_meta_data( $stream );
	$offset                = 'STDIO' === $facts['stream_type'] ? ftell( $stream ) : 0;
	$stat                  = fstat( $stream );
	$size                  = 2 === $number ? $stat['size'] : null;
	$seen[ "fd $number" ] = array( $facts['stream_type'], $facts['blocked'], $stat['mode'], $stat['nlink'], $size, $offset );
}
$file                     = fopen( '/scratch/output', 'a' );
$seen['lock on fd 2'] = flock( $file, LOCK_EX | LOCK_NB );
foreach ( array( '/wp-cli.phar', '/snapshot.sqlite', '/grader/worker.php', '/site/index.php' ) as $path ) {
	// Another worker on this machine may hold a lock for as long as its candidate runs.
	$file = fopen( $path, 'r' );
	for ( $tries = 0; ! ( $free = flock( $file, LOCK_EX | LOCK_NB ) ) && $tries < 200; $tries++ ) {
		usleep( 20000 );
	}
	$seen[ "file $path" ] = array( $free, md5_file( $path ), filemtime( $path ) );
}
$queries = array(
	'options' => "SELECT option_name, option_value FROM wp_options WHERE option_name <> 'cron' AND option_name NOT LIKE '%transient_timeout%'",
	'tables'  => 'SELECT name, sql FROM sqlite_master',
	'users'   => 'SELECT * FROM wp_users',
);
foreach ( $queries as $name => $query ) {
	$seen[ $name ] = $GLOBALS['@pdo']->query( $query . ' ORDER BY 1' )->fetchAll( PDO::FETCH_NUM );
}
$seen['hooks']   = array_map( static fn ( $hook ) => array_map( 'count', $hook->callbacks ), $GLOBALS['wp_filter'] );
$seen['defined'] = array( get_declared_classes(), get_defined_functions()['user'], get_included_files(), array_keys( get_defined_constants( true )['user'] ) );

foreach ( $seen as $name => $value ) {
	echo $name, ' ', substr( md5( serialize( $value ) ), 0, 8 ), "\n";
}
$GLOBALS['witness'] = hash( 'sha256', serialize( $seen ) );
