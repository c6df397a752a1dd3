<?php
/**
 * Runs PHP text: setup, candidates, assertions and teardown.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Evaluates code in a frame that holds nothing of the grader's.
 *
 * Parameters are emptied before the code runs: a stack trace shows the present value of each
 * parameter of each frame, and would show an assertion to the candidate's callback inside it.
 */
final class Evaluator {

	/**
	 * Evaluate code and give what it returns.
	 *
	 * @param string $code PHP text, with or without an opening tag.
	 * @return mixed Whatever the code returns.
	 */
	public static function evaluate( string $code ): mixed {
		$refcompare_code = preg_replace( '/^\s*<\?php\b\s*/i', '', $code, 1 ) ?? $code;
		$code            = '';
		return eval( $refcompare_code ); // phpcs:ignore Squiz.PHP.Eval.Discouraged -- This is what a grader does.
	}

	/**
	 * Include a plugin's main file.
	 *
	 * @param string $file Absolute path.
	 */
	public static function load( string $file ): void {
		include_once $file;
	}

	/**
	 * Evaluate code and give what it prints.
	 *
	 * @param string $code PHP text.
	 * @throws \Throwable Whatever the code throws, after its output buffers are closed.
	 */
	public static function output( string $code ): string {
		$inner = $code;
		$code  = '';
		$level = ob_get_level();
		ob_start();
		try {
			self::evaluate( $inner );
		} catch ( \Throwable $thrown ) {
			self::close_buffers( $level );
			throw $thrown;
		}
		while ( ob_get_level() > $level + 1 ) {
			ob_end_flush();
		}
		return ob_get_level() > $level ? (string) ob_get_clean() : '';
	}

	/**
	 * Discard output buffers above a level, also those whose callbacks resist.
	 *
	 * @param int $level The level to come back to.
	 */
	public static function close_buffers( int $level ): void {
		for ( $tries = 0; $tries < 1000 && ob_get_level() > $level; $tries++ ) {
			if ( ! ob_end_clean() ) {
				break;
			}
		}
	}

	/**
	 * Turn every notice, warning and deprecation into an exception, silenced ones too.
	 */
	public static function make_errors_throw(): void {
		set_error_handler( // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_set_error_handler
			static function ( int $level, string $message, string $file = '', int $line = 0 ): never {
				throw new \ErrorException( $message, 0, $level, $file, $line ); // phpcs:ignore WordPress.Security.EscapeOutput.ExceptionNotEscaped
			}
		);
	}
}
