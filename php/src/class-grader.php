<?php
/**
 * The grading of one candidate, in a process of its own.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Runs setup and candidate, asks for the assertions, runs them, and signs what it saw.
 *
 * Everything that a candidate must not see or change lives in local variables of run(): the
 * nonce that proves that the candidate's turn is over, the channel, the assertions, the secret
 * and the results. Locals of a frame cannot be reached from other PHP code; properties,
 * statics, globals, parameters (in stack traces) and stream resources can.
 */
final class Grader {

	private const MAX_PHASE_TWO = 16777216;
	private const ROOM          = 67108864;

	/**
	 * Grade and end the process.
	 *
	 * @param array<string, mixed>|null $request The request: nonce, setup, code, files, limits. Emptied at once.
	 * @param \Socket|null              $channel The child's end of the channel. Emptied at once.
	 */
	public static function run( ?array $request, ?\Socket $channel ): never {
		$asked   = $request ?? array();
		$socket  = $channel;
		$request = null;
		$channel = null;
		$level   = \ob_get_level();
		$output  = '';
		\ob_start( self::keep_output( $output, (int) $asked['limits']['output'] ), 4096 );

		$machinery = Integrity::machinery();
		$known     = Integrity::sql_names( $machinery );
		$lock      = null;
		$phase     = 'plugin';
		$message   = null;
		try {
			if ( \is_array( $asked['files'] ?? null ) ) {
				$lock = Integrity::lock_sql( $machinery );
				Evaluator::load( Plugin_Installer::install( $asked['files'] ) );
			}
			$phase = 'setup';
			Evaluator::evaluate( $asked['setup'] );
			if ( ! \is_array( $asked['files'] ?? null ) ) {
				$machinery = Integrity::machinery();
				$known     = Integrity::sql_names( $machinery );
				$lock      = Integrity::lock_sql( $machinery );
			}

			$phase = 'candidate';
			Evaluator::evaluate( $asked['code'] );
			$phase = null;
		} catch ( \Throwable $thrown ) {
			$message = Describe::thrown( $thrown );
		}
		unset( $thrown );
		$tampered = self::settle( $level ) ?? Integrity::violation( $machinery );
		$left     = self::settle( $level ); // Newer PHP lets code be called for looking at an object, and for asking a database.
		$tampered = $tampered ?? $left;
		// The first one is closed too: the candidate could have put its own in its place.
		\ob_start( self::keep_output( $output, (int) $asked['limits']['output'] ), 4096 );
		$memory = self::make_room( $socket );

		// From here to the end of receive() no code of the candidate's can run: its buffers and timers
		// are gone, nothing is collected, it has no signal handler, no other process or thread,
		// memory cannot run out, and a process that ends nevertheless ends by Child::guard().
		self::send( $socket, (string) \json_encode( array( 'nonce' => $asked['nonce'] ) ) ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		$second = \json_decode( self::receive( $socket ), true );
		self::limit_memory( $memory );

		$text    = $asked['code'] . \implode( "\n\n", (array) ( $asked['files'] ?? array() ) );
		$all     = $asked['setup'] . "\n\n" . $text;
		$static  = Static_Analysis::match( $text, $second['static_checks'] );
		$results = array();
		foreach ( null === $phase ? $second['assertions'] : array() as $assertion ) {
			$results[] = Assertions::run( $assertion, $all );
			$tampered  = $tampered ?? Integrity::violation( $machinery );
		}
		if ( Integrity::sql_names( $machinery ) !== $known ) {
			$tampered = $tampered ?? 'the candidate added SQL functions or collations to the database';
		}
		unset( $lock );
		$left     = self::settle( $level ); // The secret is about to be an argument of a function.
		$tampered = $tampered ?? $left;
		$verdict  = (string) \json_encode( // phpcs:ignore WordPress.WP.AlternativeFunctions
			array(
				'phase'      => $phase,
				'message'    => $message,
				'tampered'   => $tampered,
				'assertions' => $results,
				'static'     => $static,
				'output'     => Describe::cut( $output, (int) $asked['limits']['output'] ),
			),
			\JSON_INVALID_UTF8_SUBSTITUTE | \JSON_PARTIAL_OUTPUT_ON_ERROR
		);
		self::send(
			$socket,
			(string) \json_encode( // phpcs:ignore WordPress.WP.AlternativeFunctions
				array(
					'verdict' => $verdict,
					'mac'     => \hash_hmac( 'sha256', $verdict, $second['secret'] ),
				)
			)
		);

		// The verdict is out, so that nothing that happens in the teardown can touch it.
		$teardown = $second['teardown'];
		$second   = array();
		$asked    = array();
		try {
			Evaluator::evaluate( take( $teardown ) );
		} finally {
			\posix_kill( \posix_getpid(), \SIGKILL );
		}
		exit( 1 );
	}

	/**
	 * An output callback that keeps the first bytes of what is printed and drops the rest.
	 *
	 * @param string $output Where to keep it.
	 * @param int    $limit  Bytes to keep.
	 */
	private static function keep_output( string &$output, int $limit ): \Closure {
		return static function ( string $chunk ) use ( &$output, $limit ): string {
			if ( \strlen( $output ) < $limit ) {
				$output .= \substr( $chunk, 0, $limit - \strlen( $output ) );
			}
			return '';
		};
	}

	/**
	 * End whatever the candidate has left that could run on its own.
	 *
	 * Its output callbacks run here, and may set new traps; what disarms those comes after, and
	 * runs nothing of the candidate's. Its garbage is left lying with the collector off: to collect
	 * it would run destructors, and look at all that WordPress holds.
	 *
	 * @param int $level The output buffer level to come back to.
	 * @return string|null What could not be ended.
	 */
	private static function settle( int $level ): ?string {
		Evaluator::close_buffers( $level );
		\gc_disable();
		\set_time_limit( 0 );
		Evaluator::arm();
		return \ob_get_level() > $level ? 'the candidate left an output buffer that cannot be closed' : null;
	}

	/**
	 * See to it that memory cannot run out while the assertions arrive.
	 *
	 * Lifts PHP's limit and asks for a large block that is never touched, since the operating
	 * system's limit holds still: with no room left the process ends here, before it has shown
	 * that the candidate's turn is over.
	 *
	 * @param \Socket $socket The channel, on which nothing can have arrived yet.
	 * @return string The limit as the candidate left it.
	 */
	private static function make_room( \Socket $socket ): string {
		$memory = (string) \ini_get( 'memory_limit' );
		\ini_set( 'memory_limit', '-1' ); // phpcs:ignore WordPress.PHP.IniSet.memory_limit_Disallowed
		$none = '';
		\socket_recv( $socket, $none, self::ROOM, \MSG_DONTWAIT );
		return $memory;
	}

	/**
	 * Put PHP's memory limit back; where so much is in use by now, the operating system's remains.
	 *
	 * @param string $memory The limit.
	 */
	private static function limit_memory( string $memory ): void {
		try {
			\ini_set( 'memory_limit', $memory ); // phpcs:ignore WordPress.PHP.IniSet.memory_limit_Disallowed
		} catch ( \ErrorException $over ) {
			unset( $over );
		}
	}

	/**
	 * Let the channel wait as long as it takes, whatever code that found its descriptor has set.
	 *
	 * @param \Socket $socket The channel.
	 */
	private static function unmute( \Socket $socket ): void {
		$forever = array(
			'sec'  => 0,
			'usec' => 0,
		);
		\socket_set_block( $socket );
		\socket_set_option( $socket, \SOL_SOCKET, \SO_RCVTIMEO, $forever );
		\socket_set_option( $socket, \SOL_SOCKET, \SO_SNDTIMEO, $forever );
	}

	/**
	 * Send one line.
	 *
	 * @param \Socket $socket The channel.
	 * @param string  $line   The line, without its end.
	 */
	private static function send( \Socket $socket, string $line ): void {
		self::unmute( $socket );
		$rest = $line . "\n";
		while ( '' !== $rest ) {
			$sent = \socket_write( $socket, $rest );
			if ( false === $sent ) {
				\posix_kill( \posix_getpid(), \SIGKILL );
			}
			$rest = \substr( $rest, (int) $sent );
		}
	}

	/**
	 * Receive one line.
	 *
	 * @param \Socket $socket The channel.
	 */
	private static function receive( \Socket $socket ): string {
		self::unmute( $socket );
		$line = '';
		while ( ! \str_ends_with( $line, "\n" ) && \strlen( $line ) < self::MAX_PHASE_TWO ) {
			$chunk = '';
			if ( ! \socket_recv( $socket, $chunk, 65536, 0 ) ) {
				\posix_kill( \posix_getpid(), \SIGKILL );
			}
			$line .= $chunk;
		}
		return $line;
	}
}
