<?php
/**
 * Functions that PHP is started without, for code that calls them in good faith.
 *
 * The environment of a process decides which native code its libraries load (character set
 * converters, TLS engines, XSLT plugins), so nothing in a grader may change it.
 *
 * PHP's own autoloader gives the file that it includes the variables of whatever PHP code is
 * closest on the stack. PHP can be made to call it by itself when it frees an object (an archive
 * tells of its progress while it is written), and the variables are the grader's then.
 *
 * @package Refcompare
 */

declare(strict_types=1);

if ( ! \function_exists( 'putenv' ) ) {
	/**
	 * Stands in for PHP's own putenv() and sets nothing.
	 *
	 * @param string $assignment As `NAME=value`.
	 * @return bool False: it was not set.
	 */
	function putenv( string $assignment ): bool { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals
		unset( $assignment );
		return false;
	}
}

if ( ! \function_exists( 'spl_autoload' ) ) {
	/**
	 * Stands in for PHP's own autoloader, also as the default of spl_autoload_register().
	 *
	 * @param string      $class_name      The class that is looked for.
	 * @param string|null $file_extensions Endings of files, with commas between; null for those that are set.
	 */
	function spl_autoload( string $class_name, ?string $file_extensions = null ): void { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals
		$file_extensions ??= \spl_autoload_extensions();
		foreach ( \explode( ',', $file_extensions ) as $extension ) {
			$file = \stream_resolve_include_path( \strtolower( \str_replace( '\\', '/', $class_name ) ) . $extension );
			if ( false !== $file ) {
				include_once $file; // As PHP does, which includes no file twice.
				if ( \class_exists( $class_name, false ) || \interface_exists( $class_name, false ) || \trait_exists( $class_name, false ) ) {
					return;
				}
			}
		}
	}
}
