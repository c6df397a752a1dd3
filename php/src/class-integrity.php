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
 * A candidate may change what the site does: options, hooks, tables, roles, answers. It may not
 * put a puppet between the assertions and the site: another database object or connection, hooks
 * that are no WP_Hook, another object cache, SQL functions of its own in the place of SQLite's,
 * temporary tables that hide the site's.
 *
 * Nothing here calls a method that a candidate could have written.
 */
final class Integrity {

	private const PARTS = array(
		'$wpdb',
		'the driver behind $wpdb',
		'the connection behind $wpdb',
		'the database behind $wpdb',
		'the class of statements of the database',
		'the SQL functions behind $wpdb',
		'the SQL parser behind $wpdb',
		'$wp_object_cache',
	);

	private const DATABASE      = 3;
	private const SQL_FUNCTIONS = 5;

	/**
	 * What must stay the same, in the order of PARTS. Called after setup, since a test's own setup
	 * may replace them.
	 *
	 * @return list<mixed>
	 */
	public static function machinery(): array {
		$wpdb   = $GLOBALS['wpdb'] ?? null;
		$driver = self::property( $wpdb, "\0*\0dbh" );
		$link   = self::property( $driver, "\0WP_MySQL_On_SQLite\0connection" );
		$pdo    = self::property( $link, "\0WP_SQLite_Connection\0pdo" );
		$cache  = $GLOBALS['wp_object_cache'] ?? null;
		return array(
			\is_object( $wpdb ) ? $wpdb : null,
			$driver,
			$link,
			$pdo,
			self::is_plain( $pdo ) ? $pdo->getAttribute( \PDO::ATTR_STATEMENT_CLASS ) : null, // phpcs:ignore WordPress.DB.RestrictedClasses
			self::property( $driver, "\0WP_MySQL_On_SQLite\0user_defined_functions" ),
			\get_debug_type( self::property( $driver, "\0WP_MySQL_On_SQLite\0mysql_parser" ) ),
			\get_debug_type( $cache ),
		);
	}

	/**
	 * What has been replaced, as a sentence; null when nothing has.
	 *
	 * @param list<mixed> $expected What machinery() gave after setup.
	 */
	public static function violation( array $expected ): ?string {
		$machinery = self::machinery();
		foreach ( self::PARTS as $index => $name ) {
			if ( $machinery[ $index ] !== $expected[ $index ] ) {
				return 'the candidate replaced ' . $name;
			}
		}
		$hooks = $GLOBALS['wp_filter'] ?? null;
		if ( ! \is_array( $hooks ) ) {
			return 'the candidate replaced $wp_filter';
		}
		foreach ( $hooks as $hook ) {
			if ( ! \is_object( $hook ) || \WP_Hook::class !== \get_class( $hook ) ) {
				return 'the candidate put something else than a WP_Hook into $wp_filter';
			}
		}
		return self::hidden_table( $machinery[ self::DATABASE ] );
	}

	/**
	 * The SQL functions that the database has: for each its name, its origin, its arguments.
	 *
	 * A pragma, since the table of the same name can be hidden by one that a candidate makes.
	 *
	 * @param list<mixed> $machinery What machinery() gave.
	 * @return list<list<mixed>>|null Null where there is no such database.
	 */
	public static function sql_functions( array $machinery ): ?array {
		return self::ask( $machinery[ self::DATABASE ], 'PRAGMA function_list' );
	}

	/**
	 * Put the functions that the driver has defined in SQL back in their places.
	 *
	 * @param list<mixed> $machinery What machinery() gave.
	 */
	public static function restore_sql_functions( array $machinery ): void {
		$pdo      = $machinery[ self::DATABASE ];
		$instance = $machinery[ self::SQL_FUNCTIONS ];
		if ( ! self::is_plain( $pdo ) || ! $instance instanceof \WP_SQLite_PDO_User_Defined_Functions ) {
			return;
		}
		$names = \get_mangled_object_vars( $instance )["\0WP_SQLite_PDO_User_Defined_Functions\0functions"] ?? array();
		foreach ( \is_array( $names ) ? $names : array() as $name => $method ) {
			if ( $pdo instanceof \Pdo\Sqlite ) {
				$pdo->createFunction( $name, array( $instance, $method ) );
			} else {
				$pdo->sqliteCreateFunction( $name, array( $instance, $method ) );
			}
		}
	}

	/**
	 * Name a table of the site's that a temporary one hides.
	 *
	 * @param mixed $pdo The database.
	 */
	private static function hidden_table( mixed $pdo ): ?string {
		if ( null === $pdo ) {
			return null;
		}
		$temporary = self::ask( $pdo, "SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')" );
		foreach ( $temporary ?? array() as list( $name ) ) {
			if ( array() !== self::ask( $pdo, 'SELECT name FROM main.sqlite_master WHERE name = ? COLLATE NOCASE', $name ) ) {
				return 'the candidate put a temporary table in the place of ' . $name;
			}
		}
		return null === $temporary ? 'the candidate closed the database to questions' : null;
	}

	/**
	 * Ask the database in SQL that calls no function.
	 *
	 * @param mixed  $pdo       The database.
	 * @param string $sql       The query.
	 * @param string ...$values Its parameters.
	 * @return list<list<mixed>>|null Null where it cannot be asked.
	 */
	private static function ask( mixed $pdo, string $sql, string ...$values ): ?array {
		if ( ! self::is_plain( $pdo ) || array( 'PDOStatement' ) !== $pdo->getAttribute( \PDO::ATTR_STATEMENT_CLASS ) ) { // phpcs:ignore WordPress.DB.RestrictedClasses
			return null;
		}
		try {
			$statement = $pdo->prepare( $sql );
			return $statement && $statement->execute( $values ) ? $statement->fetchAll( \PDO::FETCH_NUM ) : null; // phpcs:ignore WordPress.DB.RestrictedClasses
		} catch ( \PDOException ) { // phpcs:ignore WordPress.DB.RestrictedClasses
			return null;
		}
	}

	/**
	 * Whether this is a database connection of PHP's own class, none that a candidate has derived.
	 *
	 * @param mixed $pdo Anything.
	 * @phpstan-assert-if-true \PDO $pdo
	 */
	private static function is_plain( mixed $pdo ): bool {
		return \is_object( $pdo ) && \in_array( \get_class( $pdo ), array( 'PDO', 'Pdo\\Sqlite' ), true );
	}

	/**
	 * Read a property, whatever its visibility, without the magic methods of its owner.
	 *
	 * @param mixed  $owner The object.
	 * @param string $name  The property's name as PHP keeps it.
	 */
	private static function property( mixed $owner, string $name ): ?object {
		$value = \is_object( $owner ) ? \get_mangled_object_vars( $owner )[ $name ] ?? null : null;
		return \is_object( $value ) ? $value : null;
	}
}
