<?php
/*
tries: Leaves pipes, dangling and circular links, locked directories, strange names and holes behind.
acceptable: [fail]
*/

unlink( '/scratch/output' );
posix_mkfifo( '/scratch/output', 0600 );
foreach ( array( '/scratch', '/tmp', '/site/wp-content', '/site/wp-content/plugins', '/site/wp-content/themes' ) as $directory ) {
	mkdir( "$directory/locked/inner", 0755, true );
	touch( "$directory/locked/inner/file" );
	posix_mkfifo( "$directory/pipe", 0600 );
	symlink( "$directory/circle", "$directory/circle" );
	symlink( '/site/wp-includes', "$directory/elsewhere" );
	symlink( '/', "$directory/locked/root" );
	file_put_contents( "$directory/name\n'\"\\ \xff\xfe", 'x' );
	mkdir( "$directory/" . str_repeat( 'n', 255 ) );
	touch( "$directory/...", 1, 1 );
	$hole = fopen( "$directory/hole", 'w' );
	ftruncate( $hole, 1 << 25 );
	flock( $hole, LOCK_EX );
	chmod( "$directory/locked/inner", 0 );
	chmod( "$directory/locked", 0 );
	chmod( $directory, 0500 );
	touch( $directory, 12345678, 87654321 );
}
