<?php
/**
 * Candidates that are whole plugins.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Writes a candidate's files into a plugin directory of their own and includes the main file.
 */
final class Plugin_Installer {

	private const MAX_FILES      = 20;
	private const MAX_FILE_BYTES = 262144;
	private const MAX_BYTES      = 1048576;

	/**
	 * Write the files.
	 *
	 * @param array<string, string> $files Relative path => contents.
	 * @return string Absolute path of the main file.
	 * @throws \InvalidArgumentException Where the files are no plugin or break a limit.
	 */
	public static function install( array $files ): string {
		$main      = self::main_file( $files );
		$directory = \WP_PLUGIN_DIR . '/wp-bench-candidate-' . \bin2hex( \random_bytes( 4 ) );
		foreach ( $files as $path => $contents ) {
			$target = $directory . '/' . $path;
			\wp_mkdir_p( \dirname( $target ) );
			\file_put_contents( $target, $contents ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		}
		return $directory . '/' . $main;
	}

	/**
	 * Check the limits and find the one top-level file with a plugin header.
	 *
	 * @param array<mixed> $files Relative path => contents.
	 * @throws \InvalidArgumentException Where the files are no plugin or break a limit.
	 */
	private static function main_file( array $files ): string {
		if ( \count( $files ) > self::MAX_FILES ) {
			throw new \InvalidArgumentException( 'a plugin may have at most ' . self::MAX_FILES . ' files' );
		}
		$mains = array();
		$bytes = 0;
		foreach ( $files as $path => $contents ) {
			if ( ! \is_string( $path ) || ! \is_string( $contents ) || 1 !== \preg_match( '#^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$#D', $path )
				|| \array_intersect( \explode( '/', $path ), array( '.', '..' ) ) ) {
				throw new \InvalidArgumentException( 'unsafe plugin file path ' . Describe::value( $path ) );
			}
			$bytes += \strlen( $contents );
			if ( \strlen( $contents ) > self::MAX_FILE_BYTES || $bytes > self::MAX_BYTES ) {
				throw new \InvalidArgumentException( 'the plugin is too large at ' . Describe::value( $path ) );
			}
			if ( ! \str_contains( $path, '/' ) && \str_ends_with( $path, '.php' ) && 1 === \preg_match( '/Plugin\s+Name\s*:/i', $contents ) ) {
				$mains[] = $path;
			}
		}
		if ( 1 !== \count( $mains ) ) {
			throw new \InvalidArgumentException( 'a plugin needs exactly one top-level PHP file with a Plugin Name header, found ' . \count( $mains ) );
		}
		return $mains[0];
	}
}
