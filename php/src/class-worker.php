<?php
/**
 * The server loop of the resident grader.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Reads requests from standard input, forks a child for each, and relays lines between the
 * child and whoever asked. It never runs a candidate's code and never interprets what a child
 * says: signatures are checked at the other end.
 *
 * Protocol, one JSON object a line:
 *   out {"event":"ready", …versions}
 *   in  {"id", "nonce", "setup", "code", "files", "limits":{"seconds","memory","output"}}
 *   out {"event":"candidate","id","data"}       the child's first line, or
 *   in  {"static_checks","assertions","teardown","secret"}, or {"abort":true}; the end of input aborts too
 *   out {"event":"verdict","id","data"}         the child's second line
 *   out {"event":"done","id","status","signal","timeout","clean","stderr"}
 */
final class Worker {

	private const PROTOCOL    = 1;
	private const MAX_LINE    = 33554432;
	private const MAX_NONCE   = 4096;
	private const MAX_VERDICT = 8388608;
	private const MAX_CAPTURE = 8192;

	/**
	 * Boot, announce, serve until input ends.
	 *
	 * @throws \RuntimeException Where a child of this worker could start processes.
	 */
	public static function serve(): void {
		if ( ! Child::is_confined() ) {
			throw new \RuntimeException( 'a candidate could start processes here: the worker must run as a user without privileges' );
		}
		$wpdb = Site::load_into_memory();
		\mt_srand( 1 );
		\posix_setrlimit( \POSIX_RLIMIT_CORE, 0, 0 );
		Site::remember();
		Child::booted();
		\ini_set( 'display_errors', '0' ); // phpcs:ignore WordPress.PHP.IniSet -- From here on nobody reads standard error.
		self::say(
			array(
				'event'     => 'ready',
				'protocol'  => self::PROTOCOL,
				'wordpress' => $GLOBALS['wp_version'],
				'php'       => \PHP_VERSION,
				'sqlite'    => Site::sqlite_version(),
				'database'  => \get_class( $wpdb ),
			)
		);
		while ( true ) {
			$line = \fgets( \STDIN, self::MAX_LINE );
			if ( false === $line ) {
				return;
			}
			$request = \json_decode( $line, true );
			$line    = '';
			if ( ! \is_array( $request ) || ! self::grade( $request ) ) {
				return;
			}
			unset( $request );
		}
	}

	/**
	 * Fork, relay, reap and clean up for one candidate.
	 *
	 * @param array<string, mixed> $request The request.
	 * @return bool False when the worker is no longer fit to go on.
	 */
	private static function grade( array $request ): bool {
		$asked   = $request;
		$request = array();
		$started = \hrtime( true );
		$limit   = $started + (int) ( $asked['limits']['seconds'] * 1e9 );
		$pair    = array();
		\socket_create_pair( \AF_UNIX, \SOCK_STREAM, 0, $pair );
		$capture = \fopen( Child::CAPTURE, 'r' ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		$child   = \pcntl_fork();
		if ( 0 === $child ) {
			\fclose( $capture ); // phpcs:ignore WordPress.WP.AlternativeFunctions
			\socket_close( $pair[0] );
			Child::begin( $asked['limits'] );
			$socket = $pair[1];
			unset( $pair );
			Grader::run( $asked, $socket );
		}
		if ( $child < 0 ) {
			return false;
		}
		$id = $asked['id'];
		unset( $asked );
		\socket_close( $pair[1] );

		$timeout = false;
		$refused = false;
		$buffer  = '';
		$first   = self::read_line( $pair[0], $buffer, self::MAX_NONCE, $limit, $timeout );
		if ( null !== $first ) {
			self::say(
				array(
					'event' => 'candidate',
					'id'    => $id,
					'data'  => $first,
				)
			);
			$second  = (string) \fgets( \STDIN, self::MAX_LINE );
			$refused = ! \str_ends_with( $second, "\n" ) || \str_starts_with( $second, '{"abort"' );
			if ( ! $refused ) {
				self::write( $pair[0], $second, $limit );
				$second = '';
				$answer = self::read_line( $pair[0], $buffer, self::MAX_VERDICT, $limit, $timeout );
				if ( null !== $answer ) {
					self::say(
						array(
							'event' => 'verdict',
							'id'    => $id,
							'data'  => $answer,
						)
					);
					$timeout = ! self::await_end( $pair[0], $limit );
				}
			}
		}
		$end  = self::reap( $child, $timeout || $refused );
		$text = (string) \stream_get_contents( $capture, self::MAX_CAPTURE );
		\fclose( $capture ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		$clean = Site::restore();
		self::say(
			array(
				'event'   => 'done',
				'id'      => $id,
				'status'  => $end['status'],
				'signal'  => $end['signal'],
				'timeout' => $timeout,
				'clean'   => $clean,
				'stderr'  => Describe::cut( $text, self::MAX_CAPTURE ),
				'ms'      => \round( ( \hrtime( true ) - $started ) / 1e6, 3 ),
			)
		);
		return $clean;
	}

	/**
	 * Read the child's next line.
	 *
	 * @param \Socket $socket  The parent's end.
	 * @param string  $buffer  Bytes read beyond the last line.
	 * @param int     $longest How much the child may say, in bytes.
	 * @param int     $limit   Deadline on the monotonic clock, in nanoseconds.
	 * @param bool    $timeout Set when the deadline passed.
	 * @return string|null Null when the child is gone or the deadline passed.
	 */
	private static function read_line( \Socket $socket, string &$buffer, int $longest, int $limit, bool &$timeout ): ?string {
		while ( true ) {
			$end = \strpos( $buffer, "\n" );
			if ( false !== $end ) {
				$line   = \substr( $buffer, 0, $end );
				$buffer = \substr( $buffer, $end + 1 );
				return $line;
			}
			if ( \strlen( $buffer ) > $longest ) {
				$line   = $buffer;
				$buffer = '';
				return $line; // Whatever this is, it is not the grader's.
			}
			$left = $limit - \hrtime( true );
			if ( $left <= 0 ) {
				$timeout = true;
				return null;
			}
			$chunk = self::receive( $socket, $left );
			if ( null === $chunk ) {
				return null;
			}
			$buffer .= $chunk;
		}
	}

	/**
	 * Wait until the child, which has given its verdict, is done with the teardown.
	 *
	 * @param \Socket $socket The parent's end.
	 * @param int     $limit  Deadline on the monotonic clock, in nanoseconds.
	 * @return bool False when the deadline passed.
	 */
	private static function await_end( \Socket $socket, int $limit ): bool {
		do {
			$left = $limit - \hrtime( true );
		} while ( $left > 0 && null !== self::receive( $socket, $left ) );
		return $left > 0;
	}

	/**
	 * Receive what the child has sent.
	 *
	 * @param \Socket $socket The parent's end.
	 * @param int     $left   How long to wait at most, in nanoseconds.
	 * @return string|null Empty when nothing came in that time; null when the child has closed its end.
	 */
	private static function receive( \Socket $socket, int $left ): ?string {
		$read   = array( $socket );
		$none   = null;
		$except = null;
		if ( ! \socket_select( $read, $none, $except, \intdiv( $left, 1000000000 ), \intdiv( $left % 1000000000, 1000 ) ) ) {
			return '';
		}
		$chunk = '';
		return \socket_recv( $socket, $chunk, 65536, \MSG_DONTWAIT ) ? $chunk : null;
	}

	/**
	 * Pass a line on to the child; a child that does not read it is caught by the deadline.
	 *
	 * @param \Socket $socket The parent's end.
	 * @param string  $line   The line with its end.
	 * @param int     $limit  Deadline on the monotonic clock, in nanoseconds.
	 */
	private static function write( \Socket $socket, string $line, int $limit ): void {
		$rest = $line;
		\socket_set_nonblock( $socket );
		while ( '' !== $rest && \hrtime( true ) < $limit ) {
			$none   = null;
			$write  = array( $socket );
			$except = null;
			if ( 1 !== \socket_select( $none, $write, $except, 1 ) ) {
				continue;
			}
			$sent = @\socket_send( $socket, $rest, \strlen( $rest ), \MSG_DONTWAIT ); // phpcs:ignore WordPress.PHP.NoSilencedErrors -- A dead child is not an error here.
			if ( false === $sent ) {
				break;
			}
			$rest = \substr( $rest, $sent );
		}
		\socket_set_block( $socket );
	}

	/**
	 * End the child and collect how it ended.
	 *
	 * @param int  $child Process id.
	 * @param bool $kill  Whether to end it now; otherwise it has closed its channel and is about to end.
	 * @return array{status: int|null, signal: int|null}
	 */
	private static function reap( int $child, bool $kill ): array {
		if ( $kill ) {
			\posix_kill( $child, \SIGKILL );
		}
		$status = 0;
		for ( $tries = 0; 0 === \pcntl_waitpid( $child, $status, \WNOHANG ); $tries++ ) {
			if ( 200 === $tries ) {
				\posix_kill( $child, \SIGKILL ); // It closed its channel and lives on.
			}
			\usleep( $tries < 20 ? 100 : 5000 );
		}
		return array(
			'status' => \pcntl_wifexited( $status ) ? \pcntl_wexitstatus( $status ) : null,
			'signal' => \pcntl_wifsignaled( $status ) ? \pcntl_wtermsig( $status ) : null,
		);
	}

	/**
	 * Write one line of the protocol.
	 *
	 * @param array<string, mixed> $message The message.
	 */
	private static function say( array $message ): void {
		$line = \json_encode( $message, \JSON_INVALID_UTF8_SUBSTITUTE | \JSON_PARTIAL_OUTPUT_ON_ERROR ) . "\n"; // phpcs:ignore WordPress.WP.AlternativeFunctions
		for ( $sent = 0, $length = \strlen( $line ); $sent < $length; $sent += $written ) {
			$written = \fwrite( \STDOUT, \substr( $line, $sent ) ); // phpcs:ignore WordPress.WP.AlternativeFunctions
			if ( false === $written || 0 === $written ) {
				exit( 1 );
			}
		}
		\fflush( \STDOUT );
	}
}
