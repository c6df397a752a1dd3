<?php
/**
 * The process in which one candidate runs.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * What makes a fork of the worker a child: no way out but a signal, streams of its own, limits.
 */
final class Child {

	/**
	 * The file that keeps what a child writes to its standard streams, and what PHP died of.
	 *
	 * The worker is started with it for its own standard error, so that the constant STDERR is a
	 * stream that a child can write to and that leads nowhere else.
	 */
	public const CAPTURE = '/scratch/output';

	private const FATAL = \E_ERROR | \E_PARSE | \E_CORE_ERROR | \E_COMPILE_ERROR | \E_USER_ERROR | \E_RECOVERABLE_ERROR;

	private const FILE_BYTES       = 67108864;
	private const OPEN_FILES       = 512;
	private const BEYOND_PHP_BYTES = 536870912;

	/**
	 * The child's standard input and output, which live as long as somebody holds them.
	 *
	 * @var list<resource|false>
	 */
	private static array $streams = array();

	/**
	 * Whether the worker is still booting, and what it prints has to be told.
	 *
	 * @var bool
	 */
	private static bool $booting = true;

	/**
	 * See to it that a child that exits or dies of a fatal error runs nothing more.
	 *
	 * PHP calls shutdown functions in the order of their registration, and only after them the
	 * destructors, output callbacks and session handlers. This one is registered before WordPress
	 * is loaded and ends the process by a signal, so none of a candidate's ever runs. That matters
	 * most while the assertions arrive: whatever a candidate prepared to fail just then (a
	 * timer, exhausted memory) must not leave code of its own running beside them.
	 *
	 * SIGTERM says that the child ended itself, SIGABRT that PHP met a fatal error. The error goes
	 * into a file opened anew: a stream that a candidate can reach may carry a filter of its own.
	 */
	public static function guard(): void {
		$parent = \posix_getpid();
		\register_shutdown_function(
			static function () use ( $parent ): void {
				$self = \posix_getpid();
				if ( $self === $parent ) {
					self::tell_why_not_booted();
					return;
				}
				\ini_set( 'memory_limit', '-1' ); // phpcs:ignore WordPress.PHP.IniSet.memory_limit_Disallowed -- The next call may need a few bytes.
				$last = \error_get_last();
				// The handler may be the candidate's, or throw and so leave the rest of this undone.
				\set_error_handler( static fn (): bool => true ); // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_set_error_handler
				$fatal = null !== $last && 0 !== ( $last['type'] & self::FATAL );
				if ( $fatal ) {
					$text = "\nFatal error: {$last['message']} in {$last['file']}:{$last['line']}\n";
					@\file_put_contents( self::CAPTURE, $text, \FILE_APPEND ); // phpcs:ignore WordPress.PHP.NoSilencedErrors, WordPress.WP.AlternativeFunctions
				}
				\posix_kill( $self, $fatal ? \SIGABRT : \SIGTERM );
				\posix_kill( $self, \SIGKILL );
			}
		);
	}

	/**
	 * In the parent: from here on standard output belongs to the protocol alone.
	 */
	public static function booted(): void {
		self::$booting = false;
	}

	/**
	 * Hand on what the worker said on standard error, where it ends before it has booted.
	 */
	private static function tell_why_not_booted(): void {
		if ( self::$booting ) {
			\fwrite( \STDOUT, (string) \file_get_contents( self::CAPTURE ) ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		}
	}

	/**
	 * In the child: leave the worker's session and streams, and take on the limits.
	 *
	 * With no process to spare (RLIMIT_NPROC 0) the child can start neither a process nor a
	 * thread, so that nothing of it can run beside or after the grading. Other limits may already
	 * be stricter on this machine, and then stay so.
	 *
	 * @param array<string, int|float> $limits Seconds, and bytes of memory.
	 */
	public static function begin( array $limits ): void {
		\posix_setsid();
		\fclose( \STDIN ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		\fclose( \STDOUT ); // phpcs:ignore WordPress.WP.AlternativeFunctions
		self::$streams = array(
			\fopen( '/dev/null', 'r' ), // phpcs:ignore WordPress.WP.AlternativeFunctions
			\fopen( self::CAPTURE, 'a' ), // phpcs:ignore WordPress.WP.AlternativeFunctions
		);
		Console::begin( ...self::$streams );
		$memory = (int) $limits['memory'];
		\ini_set( 'memory_limit', (string) $memory ); // phpcs:ignore WordPress.PHP.IniSet.memory_limit_Disallowed
		$seconds = (int) \ceil( $limits['seconds'] ) + 1;
		$space   = 2 * $memory + self::BEYOND_PHP_BYTES;
		self::limit_processes();
		\posix_setrlimit( \POSIX_RLIMIT_AS, $space, $space );
		\posix_setrlimit( \POSIX_RLIMIT_FSIZE, self::FILE_BYTES, self::FILE_BYTES );
		\posix_setrlimit( \POSIX_RLIMIT_NOFILE, self::OPEN_FILES, self::OPEN_FILES );
		\posix_setrlimit( \POSIX_RLIMIT_CPU, $seconds, $seconds );
		\mt_srand( \random_int( 0, \PHP_INT_MAX ) );
	}

	/**
	 * Whether a child of this worker is unable to start processes, found out by trying.
	 *
	 * A privileged user's processes are not counted by the kernel, and a grader must not run as one.
	 */
	public static function is_confined(): bool {
		$child = \pcntl_fork();
		if ( 0 === $child ) {
			self::limit_processes();
			$second = @\pcntl_fork(); // phpcs:ignore WordPress.PHP.NoSilencedErrors -- It has to fail.
			\posix_kill( \posix_getpid(), -1 === $second ? \SIGTERM : \SIGKILL );
		}
		$status = 0;
		\pcntl_waitpid( $child, $status );
		return \pcntl_wifsignaled( $status ) && \SIGTERM === \pcntl_wtermsig( $status );
	}

	/**
	 * Take away the right to start processes, or end.
	 */
	private static function limit_processes(): void {
		if ( ! \posix_setrlimit( \POSIX_RLIMIT_NPROC, 0, 0 ) ) {
			\posix_kill( \posix_getpid(), \SIGKILL );
		}
	}
}
