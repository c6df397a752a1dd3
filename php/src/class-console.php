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
 * A child closes the two streams over which its parent is spoken to, and with them the constants
 * STDIN and STDOUT, to which WP-CLI writes.
 */
final class Console extends \WP_CLI\Loggers\Regular {

	/**
	 * Standard output.
	 *
	 * @var resource
	 */
	private $output;

	/**
	 * Take over from WP-CLI's own logger and streams.
	 *
	 * @param resource $input  Standard input.
	 * @param resource $output Standard output.
	 */
	public static function begin( $input, $output ): void {
		$console         = new self( false );
		$console->output = $output;
		\WP_CLI::set_logger( $console );
		\cli\Streams::setStream( 'in', $input );
		\cli\Streams::setStream( 'out', $output );
	}

	/**
	 * Write to one of the two streams.
	 *
	 * @param resource $handle STDERR, or STDOUT, which is closed.
	 * @param string   $str    The text.
	 */
	protected function write( $handle, $str ) {
		\fwrite( \STDERR === $handle ? $handle : $this->output, $str ); // phpcs:ignore WordPress.WP.AlternativeFunctions
	}
}
