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

	private const MAX_PHASE_TWO = 33554432;

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
		$level   = ob_get_level();
		$output  = '';
		ob_start( self::keep_output( $output, (int) $asked['limits']['output'] ), 4096 );
		Evaluator::make_errors_throw();

		$machinery = Integrity::machinery();
		$phase     = 'plugin';
		$message   = null;
		try {
			if ( is_array( $asked['files'] ?? null ) ) {
				Evaluator::load( Plugin_Installer::install( $asked['files'] ) );
			}
			$phase = 'setup';
			Evaluator::evaluate( $asked['setup'] );
			$machinery = is_array( $asked['files'] ?? null ) ? $machinery : Integrity::machinery();
			$phase     = 'candidate';
			Evaluator::evaluate( $asked['code'] );
			$phase = null;
		} catch ( \Throwable $thrown ) {
			$message = Describe::thrown( $thrown );
		}
		unset( $thrown );
		self::settle( $level + 1 );
		$tampered = Integrity::violation( $machinery );

		// From here to the end of receive() no code of the candidate's can run: its buffers,
		// signals, collectable objects and stream wrappers are gone, and it has no other process.
		$report = array(
			'nonce'   => $asked['nonce'],
			'phase'   => $phase,
			'message' => $message,
		);
		self::send( $socket, (string) json_encode( $report ) ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		$second = json_decode( self::receive( $socket ), true );
		gc_enable();

		$text    = $asked['code'] . implode( "\n\n", (array) ( $asked['files'] ?? array() ) );
		$static  = Static_Analysis::match( $text, $second['static_checks'] );
		$results = array();
		foreach ( null === $phase ? $second['assertions'] : array() as $assertion ) {
			$results[] = Assertions::run( $assertion );
			$tampered  = $tampered ?? Integrity::violation( $machinery );
		}
		try {
			Evaluator::evaluate( $second['teardown'] );
		} catch ( \Throwable $thrown ) {
			unset( $thrown ); // A teardown that fails is no fault of the candidate's.
		}
		Evaluator::close_buffers( $level );
		$verdict = (string) json_encode( // phpcs:ignore WordPress.WP.AlternativeFunctions
			array(
				'phase'      => $phase,
				'message'    => $message,
				'tampered'   => $tampered,
				'assertions' => $results,
				'static'     => $static,
				'output'     => Describe::cut( $output, (int) $asked['limits']['output'] ),
			),
			JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR
		);
		self::send(
			$socket,
			(string) json_encode( // phpcs:ignore WordPress.WP.AlternativeFunctions
				array(
					'verdict' => $verdict,
					'mac'     => hash_hmac( 'sha256', $verdict, $second['secret'] ),
				)
			)
		);
		posix_kill( posix_getpid(), SIGKILL );
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
			if ( strlen( $output ) < $limit ) {
				$output .= substr( $chunk, 0, $limit - strlen( $output ) );
			}
			return '';
		};
	}

	/**
	 * End whatever the candidate has left that could run on its own.
	 *
	 * @param int $level The output buffer level to come back to.
	 */
	private static function settle( int $level ): void {
		Evaluator::close_buffers( $level );
		Integrity::restore_streams();
		Evaluator::make_errors_throw();
		gc_enable();
		gc_collect_cycles();
		gc_disable();
	}

	/**
	 * Send one line.
	 *
	 * @param \Socket $socket The channel.
	 * @param string  $line   The line, without its end.
	 */
	private static function send( \Socket $socket, string $line ): void {
		$rest   = $line . "\n";
		$line   = '';
		$socket = array( $socket );
		while ( '' !== $rest ) {
			$sent = socket_write( $socket[0], $rest );
			if ( false === $sent ) {
				posix_kill( posix_getpid(), SIGKILL );
			}
			$rest = substr( $rest, (int) $sent );
		}
	}

	/**
	 * Receive one line.
	 *
	 * @param \Socket $socket The channel.
	 */
	private static function receive( \Socket $socket ): string {
		$line = '';
		while ( ! str_ends_with( $line, "\n" ) && strlen( $line ) < self::MAX_PHASE_TWO ) {
			$chunk = '';
			if ( ! socket_recv( $socket, $chunk, 65536, 0 ) ) {
				posix_kill( posix_getpid(), SIGKILL );
			}
			$line .= $chunk;
		}
		return $line;
	}
}
