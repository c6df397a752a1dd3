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
 * that are no WP_Hook, another object cache, an object in the place of an array in which WordPress
 * looks things up, SQL functions or collations of its own, temporary tables that hide the site's.
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
		'the connectedness of $wpdb',
		'the SQL grammar behind $wpdb',
		'the information schema behind $wpdb',
		'the logger of queries behind $wpdb',
		'$wp_roles',
	);

	private const DATABASE  = 3;
	private const REGISTERS = 13;

	/**
	 * Classes that know things by name, each by one object in its static property `instance`.
	 */
	private const REGISTRIES = array(
		'WP_Abilities_Registry',
		'WP_Ability_Categories_Registry',
		'WP_Block_Bindings_Registry',
		'WP_Block_Pattern_Categories_Registry',
		'WP_Block_Patterns_Registry',
		'WP_Block_Styles_Registry',
		'WP_Block_Supports',
		'WP_Block_Templates_Registry',
		'WP_Block_Type_Registry',
		'WP_Font_Library',
		'WP_Icon_Collections_Registry',
		'WP_Icons_Registry',
	);

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
		$parser = self::property( $driver, "\0WP_MySQL_On_SQLite\0mysql_parser" );

		$grammar = self::property( $parser, "\0*\0grammar" );
		return array(
			\is_object( $wpdb ) ? $wpdb : null,
			$driver,
			$link,
			$pdo,
			self::is_plain( $pdo ) ? $pdo->getAttribute( \PDO::ATTR_STATEMENT_CLASS ) : null, // phpcs:ignore WordPress.DB.RestrictedClasses
			self::property( $driver, "\0WP_MySQL_On_SQLite\0user_defined_functions" ),
			\get_debug_type( $parser ),
			\get_debug_type( $cache ),
			\is_object( $wpdb ) ? \get_mangled_object_vars( $wpdb )['ready'] ?? null : null,
			// The same arrays as before are compared at once, by where they lie.
			null === $grammar ? null : \get_mangled_object_vars( $grammar ),
			\get_debug_type( self::property( $driver, "\0WP_MySQL_On_SQLite\0information_schema_builder" ) ),
			// It is called before each query, and may take the query by reference.
			null === $link ? null : \get_mangled_object_vars( $link )["\0WP_SQLite_Connection\0query_logger"] ?? null,
			\get_debug_type( $GLOBALS['wp_roles'] ?? null ),
			self::registers(),
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
		foreach ( $hooks as $name => $hook ) {
			if ( ! \is_object( $hook ) || \WP_Hook::class !== \get_class( $hook ) ) {
				return 'the candidate put something else than a WP_Hook into $wp_filter';
			}
			$callbacks = $hook->callbacks ?? array();
			foreach ( \is_array( $callbacks ) ? $callbacks : array( $callbacks ) as $entries ) {
				if ( \is_object( $entries ) ) {
					return 'the candidate put an object in the place of the callbacks of the hook ' . $name;
				}
			}
		}
		return self::hidden_register( $expected[ self::REGISTERS ] )
			?? self::hidden_registry()
			?? self::hidden_table( $machinery[ self::DATABASE ] );
	}

	/**
	 * The SQL functions and collations that the database has: for each its name, origin, arguments.
	 *
	 * Pragmas, since the tables of the same names can be hidden by some that a candidate makes.
	 *
	 * @param list<mixed> $machinery What machinery() gave.
	 * @return list<list<mixed>|null> Null where there is no such database.
	 */
	public static function sql_names( array $machinery ): array {
		$pdo        = $machinery[ self::DATABASE ];
		$collations = self::ask( $pdo, 'PRAGMA collation_list' );
		return array(
			self::ask( $pdo, 'PRAGMA function_list' ),
			null === $collations ? null : \array_column( $collations, 1 ),
		);
	}

	/**
	 * Keep functions and collations that are there from being replaced, for as long as the result lives.
	 *
	 * SQLite refuses to replace one while a statement is under way. This one has given the first
	 * of its rows, reads no table, and so locks none.
	 *
	 * @param list<mixed> $machinery What machinery() gave.
	 */
	public static function lock_sql( array $machinery ): ?\PDOStatement { // phpcs:ignore WordPress.DB.RestrictedClasses
		$pdo = $machinery[ self::DATABASE ];
		return self::can_ask( $pdo ) ? $pdo->query( 'VALUES ( 1 ), ( 2 )' ) : null;
	}

	/**
	 * Where WordPress looks things up: the globals that are arrays, and such properties of global objects.
	 *
	 * @return array<string, list<int|string>|null> Global => properties; null for a global that is an array itself.
	 */
	private static function registers(): array {
		$registers = array();
		foreach ( $GLOBALS as $name => $value ) {
			if ( \is_array( $value ) ) {
				$registers[ $name ] = null;
			} elseif ( \is_object( $value ) ) {
				$registers[ $name ] = \array_keys( \array_filter( \get_mangled_object_vars( $value ), 'is_array' ) );
			}
		}
		return $registers;
	}

	/**
	 * Name an array of WordPress's that has become an object, which can have an answer to every question.
	 *
	 * @param array<string, list<int|string>|null> $expected What registers() gave after setup.
	 */
	private static function hidden_register( array $expected ): ?string {
		foreach ( $expected as $name => $properties ) {
			$value = $GLOBALS[ $name ] ?? null;
			if ( ! \is_object( $value ) ) {
				continue;
			}
			if ( null === $properties ) {
				return 'the candidate put an object in the place of the array $' . $name;
			}
			$held = \get_mangled_object_vars( $value );
			foreach ( $properties as $property ) {
				if ( \is_object( $held[ $property ] ?? null ) ) {
					return 'the candidate put an object in the place of an array of $' . $name;
				}
			}
		}
		return null;
	}

	/**
	 * Name a registry of WordPress's that is another's, or that has an object in the place of an array.
	 */
	private static function hidden_registry(): ?string {
		foreach ( self::REGISTRIES as $class ) {
			if ( ! \class_exists( $class, false ) || ! \property_exists( $class, 'instance' ) ) {
				continue;
			}
			$reflected = new \ReflectionClass( $class );
			$instance  = $reflected->getStaticPropertyValue( 'instance' );
			if ( null === $instance ) {
				continue; // Nobody has asked for it.
			}
			if ( ! \is_object( $instance ) || \get_class( $instance ) !== $reflected->getName() ) {
				return 'the candidate replaced the object of ' . $class;
			}
			$defaults = $reflected->getDefaultProperties();
			foreach ( \get_mangled_object_vars( $instance ) as $property => $held ) {
				$name = \substr( (string) \strrchr( "\0" . $property, "\0" ), 1 );
				if ( \is_object( $held ) && \is_array( $defaults[ $name ] ?? null ) ) {
					return 'the candidate put an object in the place of an array of ' . $class;
				}
			}
		}
		return null;
	}

	/**
	 * Name a table of the site's that a temporary one hides.
	 *
	 * By a pragma, which shows the tables that are in use: the tables that describe tables can be edited.
	 *
	 * @param mixed $pdo The database.
	 */
	private static function hidden_table( mixed $pdo ): ?string {
		if ( null === $pdo ) {
			return null;
		}
		$tables = self::ask( $pdo, 'PRAGMA table_list' );
		$names  = array(
			'main' => array(),
			'temp' => array(),
		);
		foreach ( $tables ?? array() as list( $schema, $name ) ) {
			$names[ $schema ][ \strtolower( $name ) ] = $name;
		}
		foreach ( \array_intersect_key( $names['temp'], $names['main'] ) as $name ) {
			return 'the candidate put a temporary table in the place of ' . $name;
		}
		return null === $tables ? 'the candidate closed the database to questions' : null;
	}

	/**
	 * Ask the database in SQL that calls no function.
	 *
	 * @param mixed  $pdo The database.
	 * @param string $sql The query.
	 * @return list<list<mixed>>|null Null where it cannot be asked.
	 */
	private static function ask( mixed $pdo, string $sql ): ?array {
		if ( ! self::can_ask( $pdo ) ) {
			return null;
		}
		try {
			$statement = $pdo->prepare( $sql );
			return $statement && $statement->execute() ? $statement->fetchAll( \PDO::FETCH_NUM ) : null; // phpcs:ignore WordPress.DB.RestrictedClasses
		} catch ( \PDOException ) { // phpcs:ignore WordPress.DB.RestrictedClasses
			return null;
		}
	}

	/**
	 * Whether a question to this database is answered by PHP's own classes alone.
	 *
	 * @param mixed $pdo Anything.
	 * @phpstan-assert-if-true \PDO $pdo
	 */
	private static function can_ask( mixed $pdo ): bool {
		return self::is_plain( $pdo ) && array( 'PDOStatement' ) === $pdo->getAttribute( \PDO::ATTR_STATEMENT_CLASS ); // phpcs:ignore WordPress.DB.RestrictedClasses
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
