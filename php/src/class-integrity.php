<?php
/**
 * Whether WordPress is still WordPress.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Says whether the machinery through which assertions look at the site has been replaced.
 *
 * A candidate may change what the site does: options, hooks, tables, roles. It may not put a
 * puppet between the assertions and the site: another database object, hooks that are no
 * WP_Hook, another object cache, another implementation of a built-in stream.
 */
final class Integrity {

	private const BUILT_IN = array( 'php', 'file', 'glob', 'data', 'http', 'ftp', 'https', 'ftps', 'phar', 'zip', 'compress.zlib' );

	/**
	 * What must stay the same: the database object, its driver, the driver's connection and
	 * database, and the class of the object cache. Called after setup, since a test's own setup
	 * may replace them.
	 *
	 * @return list<object|string|null>
	 */
	public static function machinery(): array {
		$wpdb   = $GLOBALS['wpdb'] ?? null;
		$driver = $wpdb instanceof \WP_SQLite_DB ? self::property( $wpdb, \WP_SQLite_DB::class, 'dbh' ) : null;
		$link   = $driver instanceof \WP_MySQL_On_SQLite ? self::property( $driver, \WP_MySQL_On_SQLite::class, 'connection' ) : null;
		$pdo    = $link instanceof \WP_SQLite_Connection ? self::property( $link, \WP_SQLite_Connection::class, 'pdo' ) : null;
		$cache  = $GLOBALS['wp_object_cache'] ?? null;
		return array(
			is_object( $wpdb ) ? $wpdb : null,
			$driver,
			$link,
			$pdo,
			is_object( $cache ) ? get_class( $cache ) : null,
		);
	}

	/**
	 * What has been replaced, as a sentence; null when nothing has.
	 *
	 * @param list<object|string|null> $expected What machinery() gave after setup.
	 */
	public static function violation( array $expected ): ?string {
		$names = array( '$wpdb', 'the driver behind $wpdb', 'the connection behind $wpdb', 'the database behind $wpdb', '$wp_object_cache' );
		foreach ( self::machinery() as $index => $part ) {
			if ( $part !== $expected[ $index ] ) {
				return 'the candidate replaced ' . $names[ $index ];
			}
		}
		$hooks = $GLOBALS['wp_filter'] ?? null;
		if ( ! is_array( $hooks ) ) {
			return 'the candidate replaced $wp_filter';
		}
		foreach ( $hooks as $hook ) {
			if ( ! is_object( $hook ) || \WP_Hook::class !== get_class( $hook ) ) {
				return 'the candidate put something else than a WP_Hook into $wp_filter';
			}
		}
		return null;
	}

	/**
	 * Give PHP's own stream wrappers back where a candidate has replaced them.
	 */
	public static function restore_streams(): void {
		set_error_handler( static fn (): bool => true ); // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_set_error_handler
		foreach ( self::BUILT_IN as $protocol ) {
			stream_wrapper_restore( $protocol );
		}
		restore_error_handler();
	}

	/**
	 * Read a property that is not public.
	 *
	 * @param object       $owner The object.
	 * @param class-string $scope The class that declares the property.
	 * @param string       $name  The property.
	 */
	private static function property( object $owner, string $scope, string $name ): ?object {
		$read  = \Closure::bind( static fn ( object $owner, string $name ): mixed => $owner->$name ?? null, null, $scope );
		$value = $read( $owner, $name );
		return is_object( $value ) ? $value : null;
	}
}
