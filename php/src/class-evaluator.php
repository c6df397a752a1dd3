<?php
/**
 * Runs PHP text: setup, candidates, assertions and teardown.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Runs code under the grader's rules, whatever code before it has done to them.
 */
final class Evaluator {

	private const TRIES = 1000;

	/**
	 * What the matcher of regular expressions may use, as PHP has it.
	 *
	 * With lower limits preg_match() gives false, and an assertion that something does not match
	 * would hold.
	 */
	private const MATCHER = array(
		'pcre.backtrack_limit' => '1000000',
		'pcre.recursion_limit' => '100000',
		'pcre.jit'             => '1',
	);

	/**
	 * Evaluate code and give what it returns.
	 *
	 * Garbage is collected only while the code runs: elsewhere a destructor of the candidate's,
	 * run by the collector, would find code and expectations among the arguments on the stack.
	 *
	 * @param string $code PHP text, with or without an opening tag.
	 * @return mixed Whatever the code returns.
	 */
	public static function evaluate( string $code ): mixed {
		\gc_disable();
		self::arm();
		$bare = \preg_replace( '/^\s*<\?php\b\s*/i', '', $code, 1 ) ?? $code;
		$code = '';
		\gc_enable();
		try {
			return evaluate( take( $bare ) );
		} finally {
			\gc_disable();
		}
	}

	/**
	 * Include a plugin's main file.
	 *
	 * @param string $file Absolute path.
	 */
	public static function load( string $file ): void {
		self::arm();
		load( $file );
	}

	/**
	 * Evaluate code and give what it prints.
	 *
	 * What is flushed counts as printed. Code that discards what others have printed, or closes
	 * the buffer around it, has spoiled the observation.
	 *
	 * @param string $code PHP text.
	 * @throws \UnexpectedValueException Where the code closes or clears the buffer around it.
	 * @throws \Throwable                Whatever the code throws, after its output buffers are closed.
	 */
	public static function output( string $code ): string {
		$inner   = $code;
		$code    = '';
		$level   = \ob_get_level();
		$printed = '';
		$spoiled = false;
		$closing = false;
		\ob_start(
			static function ( string $chunk, int $flags ) use ( &$printed, &$spoiled, &$closing ): string {
				$discarding = \PHP_OUTPUT_HANDLER_CLEAN | \PHP_OUTPUT_HANDLER_FINAL;
				if ( ! $closing && 0 !== ( $flags & $discarding ) ) {
					$spoiled = true;
				}
				$printed .= $chunk;
				return '';
			}
		);
		try {
			self::evaluate( take( $inner ) );
		} catch ( \Throwable $thrown ) {
			$closing = true;
			self::close_buffers( $level );
			throw $thrown;
		}
		while ( \ob_get_level() > $level + 1 && \ob_end_flush() ) {
			continue;
		}
		$closing = true;
		self::close_buffers( $level );
		if ( $spoiled ) {
			throw new \UnexpectedValueException( 'the code closed or cleared the output buffer around it' );
		}
		return $printed;
	}

	/**
	 * Discard output buffers above a level, also those whose callbacks resist.
	 *
	 * @param int $level The level to come back to.
	 */
	public static function close_buffers( int $level ): void {
		for ( $tries = 0; $tries < self::TRIES && \ob_get_level() > $level; $tries++ ) {
			try {
				if ( ! \ob_end_clean() ) {
					return;
				}
			} catch ( \Throwable ) {
				continue; // The callback's, or PHP's notice about a buffer that cannot be closed.
			}
		}
	}

	/**
	 * Turn every notice, warning and deprecation into an exception, silenced ones too, and give
	 * the matcher its limits back.
	 */
	public static function arm(): void {
		\set_exception_handler( null );
		\set_error_handler( // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_set_error_handler
			static function ( int $level, string $message, string $file = '', int $line = 0 ): never {
				throw new \ErrorException( $message, 0, $level, $file, $line ); // phpcs:ignore WordPress.Security.EscapeOutput.ExceptionNotEscaped
			}
		);
		self::free_matcher();
	}

	/**
	 * Give the matcher of regular expressions its limits back.
	 */
	public static function free_matcher(): void {
		foreach ( self::MATCHER as $name => $value ) {
			\ini_set( $name, $value ); // phpcs:ignore WordPress.PHP.IniSet.Risky
		}
	}
}
