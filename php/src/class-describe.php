<?php
/**
 * Short, safe renderings of values for a reader.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Renders any value without calling code that a candidate could have written.
 *
 * `var_export`, `print_r`, `json_encode` and string casts all call methods of objects.
 */
final class Describe {

	private const LIMIT = 600;
	private const DEPTH = 4;
	private const ITEMS = 20;

	/**
	 * A one-line rendering, cut to a bounded length.
	 *
	 * @param mixed $value Any value.
	 */
	public static function value( mixed $value ): string {
		return self::cut( self::render( $value, self::DEPTH ), self::LIMIT );
	}

	/**
	 * Text made valid UTF-8 and cut to a length in bytes, with the cut shown.
	 *
	 * @param string $text  Any bytes.
	 * @param int    $limit Bytes to keep.
	 */
	public static function cut( string $text, int $limit ): string {
		$cut  = \strlen( $text ) > $limit;
		$text = \mb_scrub( $cut ? \substr( $text, 0, $limit ) : $text, 'UTF-8' );
		return $cut ? $text . '…' : $text;
	}

	/**
	 * What was thrown: class for PHP's own errors, then the message.
	 *
	 * @param \Throwable $thrown The throwable. Its message may be an object, which getMessage()
	 *                           would convert to a string.
	 */
	public static function thrown( \Throwable $thrown ): string {
		$message = \get_mangled_object_vars( $thrown )["\0*\0message"] ?? null;
		$message = \is_string( $message ) ? self::cut( $message, 2000 ) : self::value( $message );
		return $thrown instanceof \ErrorException ? $message : \get_class( $thrown ) . ': ' . $message;
	}

	/**
	 * The rendering itself.
	 *
	 * @param mixed $value Any value.
	 * @param int   $depth Levels of arrays still to show.
	 */
	private static function render( mixed $value, int $depth ): string {
		if ( null === $value ) {
			return 'null';
		}
		if ( \is_bool( $value ) ) {
			return $value ? 'true' : 'false';
		}
		if ( \is_int( $value ) || \is_float( $value ) ) {
			return \var_export( $value, true );
		}
		if ( \is_string( $value ) ) {
			return "'" . self::cut( $value, self::LIMIT ) . "'";
		}
		if ( \is_array( $value ) ) {
			return self::render_array( $value, $depth );
		}
		if ( $value instanceof \WP_Error ) {
			$errors = \get_mangled_object_vars( $value )['errors'] ?? null;
			return 'WP_Error(' . \implode( ', ', \is_array( $errors ) ? \array_keys( $errors ) : array() ) . ')';
		}
		return \is_object( $value ) ? 'object(' . \get_class( $value ) . ')' : \get_debug_type( $value );
	}

	/**
	 * An array, as a list where its keys allow it.
	 *
	 * @param array<mixed> $value The array.
	 * @param int          $depth Levels still to show.
	 */
	private static function render_array( array $value, int $depth ): string {
		if ( 0 === $depth ) {
			return '[…]';
		}
		$parts = array();
		$list  = \array_is_list( $value );
		foreach ( $value as $key => $item ) {
			if ( \count( $parts ) >= self::ITEMS ) {
				$parts[] = '… ' . ( \count( $value ) - self::ITEMS ) . ' more';
				break;
			}
			$shown   = self::render( $item, $depth - 1 );
			$parts[] = $list ? $shown : self::render( $key, 1 ) . ' => ' . $shown;
		}
		return '[' . \implode( ', ', $parts ) . ']';
	}
}
