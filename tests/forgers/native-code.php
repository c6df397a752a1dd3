<?php
/*
tries: Has the libraries of the process load native code that it wrote itself.
acceptable: [fail]
*/

$library = null;
foreach ( glob( '/usr/lib/*-linux-gnu/engines-3/*.so' ) + array( 99 => '/usr/lib/x86_64-linux-gnu/libz.so.1' ) as $file ) {
	$library = is_file( $file ) ? $file : $library;
}
foreach ( array( '/scratch', '/tmp', '/site/wp-content', '/site/wp-content/plugins' ) as $directory ) {
	if ( null === $library || ! copy( $library, "$directory/forge.so" ) ) {
		continue;
	}
	chmod( "$directory/forge.so", 0755 );
	file_put_contents( "$directory/gconv-modules", "module FORGE// INTERNAL $directory/forge 2\nmodule INTERNAL FORGE// $directory/forge 2\n" );
	$ways = array(
		'engine'  => static fn () => putenv( "OPENSSL_ENGINES=$directory" ) && curl_setopt( curl_init(), 10089, 'forge' ),
		'gconv'   => static fn () => putenv( "GCONV_PATH=$directory" ) && false !== iconv( 'FORGE', 'UTF-8', 'x' ),
		'preload' => static fn () => putenv( "LD_PRELOAD=$directory/forge.so" ) && mail( 'a@example.org', '', '' ),
		'dl'      => static fn () => dl( "$directory/forge.so" ),
		'ffi'     => static fn () => (bool) FFI::cdef( 'int getpid();', "$directory/forge.so" ),
		'sqlite'  => static fn () => ( new SQLite3( ':memory:' ) )->loadExtension( "$directory/forge.so" ),
		'pdo'     => static fn () => ( new Pdo\Sqlite( 'sqlite::memory:' ) )->loadExtension( "$directory/forge.so" ) || true,
		'sql'     => static fn () => (bool) $GLOBALS['@pdo']->query( "SELECT load_extension( '$directory/forge.so' )" ),
	);
	foreach ( $ways as $name => $way ) {
		try {
			if ( $way() ) {
				forger_saw( "CANARY-loaded-$name" );
			}
		} catch ( Throwable $denied ) {
			continue;
		}
	}
}
