<?php
/**
 * Where WP-CLI speaks in a child.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Writes what code says through WP-CLI to the child's own streams.
 *
 * A child closes the streams that it got from its parent, over which the parent is spoken to, and
 * with them the constants STDIN, STDOUT and STDERR, to which WP-CLI writes.
 */
final class Console extends \WP_CLI\Loggers\Regular {

	/**
	 * Standard output.
	 *
	 * @var resource
	 */
	private $output;

	/**
	 * Standard error.
	 *
	 * @var resource
	 */
	private $error;

	/**
	 * Take over from WP-CLI's own logger and streams.
	 *
	 * @param resource $input  Standard input.
	 * @param resource $output Standard output.
	 * @param resource $error  Standard error.
	 */
	public static function begin( $input, $output, $error ): void {
		$console         = new self( false );
		$console->output = $output;
		$console->error  = $error;
		\WP_CLI::set_logger( $console );
		\cli\Streams::setStream( 'in', $input );
		\cli\Streams::setStream( 'out', $output );
		\cli\Streams::setStream( 'err', $error );
	}

	/**
	 * Write to one of the two streams.
	 *
	 * @param resource $handle STDOUT or STDERR, both closed.
	 * @param string   $str    The text.
	 */
	protected function write( $handle, $str ) {
		\fwrite( \STDERR === $handle ? $this->error : $this->output, $str ); // phpcs:ignore WordPress.WP.AlternativeFunctions
	}
}
