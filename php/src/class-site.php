<?php
/**
 * The installed site that every candidate sees anew.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * The site's database, held in memory, and the places that a candidate may write to.
 *
 * A forked child inherits the database copy-on-write and reopens nothing. Files are another
 * matter: they are shared by all children of a worker, so whatever one leaves is removed before
 * the next one starts.
 */
final class Site {

	private const SNAPSHOT = '/snapshot.sqlite';
	private const SCRATCH  = '/scratch';
	private const CONTENT  = '/site/wp-content';
	private const BOOT_DIR = '/scratch/boot';

	/**
	 * Where the files lie that a clean wp-content and its plugins and themes hold directly.
	 *
	 * They are copied, since a container's image cannot be mounted file by file.
	 */
	private const CONTENT_SOURCE = '/site-content';

	/**
	 * The in-memory database needs one open connection to stay alive while it is filled.
	 */
	private const MEMORY = 'file:/refcompare?vfs=memdb';

	private const MAX_REMOVED = 20000;
	private const DESCRIPTORS = 64;

	/**
	 * What lies in each writable directory of a clean site: directory => name => identity.
	 *
	 * @var array<string, array<string, string>>
	 */
	private static array $baseline = array();

	/**
	 * Descriptors of files that were open when the worker had booted: standard error, WP-CLI's archive.
	 *
	 * @var list<int>
	 */
	private static array $descriptors = array();

	/**
	 * How many more files restore() removes.
	 *
	 * @var int
	 */
	private static int $left = self::MAX_REMOVED;

	/**
	 * Before WordPress boots: a writable copy of the database, and wp-content where it is empty.
	 */
	public static function prepare(): void {
		\umask( 0022 );
		\mkdir( self::BOOT_DIR );
		\copy( self::SNAPSHOT, self::BOOT_DIR . '/wordpress.sqlite' );
		\chmod( self::BOOT_DIR . '/wordpress.sqlite', 0600 );
		self::copy_tree( self::CONTENT_SOURCE, self::CONTENT );
	}

	/**
	 * After WordPress has booted: move the database into memory and forget the copy.
	 *
	 * @return \WP_SQLite_DB The connection that every child inherits.
	 */
	public static function load_into_memory(): \WP_SQLite_DB {
		global $wpdb;

		$path = self::BOOT_DIR . '/wordpress.sqlite';
		$wpdb->close();
		unset( $GLOBALS['@pdo'] );
		\gc_collect_cycles();

		$class  = \PHP_VERSION_ID >= 80400 ? 'Pdo\\Sqlite' : \PDO::class; // phpcs:ignore WordPress.DB.RestrictedClasses
		$memory = new $class( 'sqlite:' . self::MEMORY );
		$file   = new $class( 'sqlite:' . $path );
		$file->exec( "VACUUM INTO '" . self::MEMORY . "'" );
		$file = null;

		$driver = new \WP_MySQL_On_SQLite(
			'mysql-on-sqlite:path=:memory:;dbname=' . \DB_NAME,
			null,
			null,
			array(
				'sqlite_pdo'          => $memory,
				'sqlite_journal_mode' => 'OFF' === self::journal_mode( $memory ) ? 'OFF' : 'MEMORY',
			)
		);
		$driver->setAttribute( \PDO::ATTR_STRINGIFY_FETCHES, true ); // phpcs:ignore WordPress.DB.RestrictedClasses
		$GLOBALS['@pdo'] = $memory; // The drop-in's own name for the connection behind $wpdb.

		$adopt = function ( \WP_MySQL_On_SQLite $driver ): void {
			$this->dbh           = $driver;
			$this->ready         = true;
			$this->has_connected = true;
		};
		$adopt->call( $wpdb, $driver );
		$wpdb->set_sql_mode();
		$wpdb->flush();

		self::remove( self::BOOT_DIR );
		\wp_cache_flush();
		return $wpdb;
	}

	/**
	 * Remember what a clean site holds. Called once, after everything has been set up.
	 */
	public static function remember(): void {
		$directories = array( self::SCRATCH, '/tmp', self::CONTENT, self::CONTENT . '/plugins', self::CONTENT . '/themes' );
		foreach ( $directories as $directory ) {
			\chmod( $directory, 0755 );
		}
		foreach ( $directories as $directory ) {
			self::$baseline[ $directory ] = array();
			foreach ( self::names( $directory ) as $name ) {
				self::$baseline[ $directory ][ $name ] = self::identity( "$directory/$name" );
			}
		}
		for ( $descriptor = 2; $descriptor < self::DESCRIPTORS; $descriptor++ ) {
			$file = @\fopen( 'php://fd/' . $descriptor, 'r' ); // phpcs:ignore WordPress.PHP.NoSilencedErrors, WordPress.WP.AlternativeFunctions -- Most are not open.
			if ( false !== $file && 'STDIO' === \stream_get_meta_data( $file )['stream_type'] ) {
				self::$descriptors[] = $descriptor;
			}
			$file = null; // Closed, or it would be the next one found.
		}
		self::restore();
	}

	/**
	 * Put the writable directories back as they were, and what a child shares with its parent.
	 *
	 * Times and modes of the directories themselves are reset too, since they could carry a
	 * message from one candidate to the next, as could the offset and the lock of a file that
	 * was open before the fork.
	 *
	 * @return bool False when something could not be restored; the worker must then be replaced.
	 */
	public static function restore(): bool {
		\clearstatcache();
		self::$left = self::MAX_REMOVED;
		foreach ( \array_keys( self::$baseline ) as $directory ) {
			\chmod( $directory, 0755 );
		}
		foreach ( self::$baseline as $directory => $known ) {
			$seen = 0;
			foreach ( self::names( $directory ) as $name ) {
				$path = "$directory/$name";
				if ( ! isset( $known[ $name ] ) ) {
					if ( ! self::remove( $path ) ) {
						return false;
					}
				} elseif ( self::identity( $path ) === $known[ $name ] ) {
					++$seen;
				}
			}
			if ( \count( $known ) !== $seen ) {
				return false;
			}
			\touch( $directory, 0, 0 );
		}
		if ( ! \ftruncate( \STDERR, 0 ) ) {
			return false;
		}
		foreach ( self::$descriptors as $descriptor ) {
			$file = \fopen( 'php://fd/' . $descriptor, 'r' ); // phpcs:ignore WordPress.WP.AlternativeFunctions
			if ( false === $file ) {
				return false;
			}
			\flock( $file, \LOCK_UN );
			\rewind( $file );
		}
		return true;
	}

	/**
	 * The SQLite library's version.
	 */
	public static function sqlite_version(): string {
		return (string) $GLOBALS['@pdo']->query( 'SELECT sqlite_version()' )->fetchColumn();
	}

	/**
	 * The journal mode that an in-memory database reports.
	 *
	 * @param \PDO $memory Connection to the in-memory database.
	 */
	private static function journal_mode( \PDO $memory ): string { // phpcs:ignore WordPress.DB.RestrictedClasses
		return \strtoupper( (string) $memory->query( 'PRAGMA journal_mode' )->fetchColumn() );
	}

	/**
	 * The entries of a directory without the two dots.
	 *
	 * @param string $directory Absolute path.
	 * @return list<string> No more of them than may be removed.
	 */
	private static function names( string $directory ): array {
		$handle = \opendir( $directory );
		if ( false === $handle ) {
			return array();
		}
		$names = array();
		while ( \count( $names ) <= self::MAX_REMOVED ) {
			$name = \readdir( $handle );
			if ( false === $name ) {
				break;
			}
			if ( '.' !== $name && '..' !== $name ) {
				$names[] = $name;
			}
		}
		\closedir( $handle );
		return $names;
	}

	/**
	 * What makes a file the same file: device, inode and mode, and for one that can be written to
	 * also its times and content.
	 *
	 * Reading one leaves no sign: it was read when its identity was taken first, and only the
	 * first reading after a change is noted as its time of access.
	 *
	 * @param string $path Absolute path.
	 */
	private static function identity( string $path ): string {
		$regular = \is_file( $path ) && ! \is_link( $path ) && Child::CAPTURE !== $path;
		$content = $regular ? \md5_file( $path ) : '';
		\clearstatcache();
		$facts = \lstat( $path );
		if ( false === $facts ) {
			return '';
		}
		$identity = array( $facts['dev'], $facts['ino'], $facts['mode'] );
		$times    = $regular ? array( $facts['mtime'], $facts['ctime'], $facts['atime'] ) : array();
		return \implode( ':', array( ...$identity, ...$times, $content ) );
	}

	/**
	 * Remove a file, a link or a whole directory, whatever its mode.
	 *
	 * Gives up on more than anybody leaves by accident: a new worker is quicker then.
	 *
	 * @param string $path Absolute path.
	 */
	private static function remove( string $path ): bool {
		if ( --self::$left < 0 ) {
			return false;
		}
		if ( \is_link( $path ) || ! \is_dir( $path ) ) {
			return \unlink( $path );
		}
		\chmod( $path, 0700 );
		foreach ( self::names( $path ) as $name ) {
			if ( ! self::remove( $path . '/' . $name ) ) {
				return false;
			}
		}
		return \rmdir( $path );
	}

	/**
	 * Copy a directory's files and directories, with the times of the files.
	 *
	 * @param string $source Absolute path.
	 * @param string $target Absolute path of an existing directory.
	 */
	private static function copy_tree( string $source, string $target ): void {
		foreach ( self::names( $source ) as $name ) {
			if ( \is_dir( "$source/$name" ) ) {
				if ( ! \is_dir( "$target/$name" ) ) {
					\mkdir( "$target/$name" );
				}
				self::copy_tree( "$source/$name", "$target/$name" );
			} else {
				\copy( "$source/$name", "$target/$name" );
				\touch( "$target/$name", (int) \filemtime( "$source/$name" ) );
			}
		}
	}
}
