<?php
/**
 * Functions that PHP is started without, for code that calls them in good faith.
 *
 * The environment of a process decides which native code its libraries load (character set
 * converters, TLS engines, XSLT plugins), so nothing in a grader may change it.
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
