<?php
/**
 * Patterns that a candidate's text must or must not hold.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Matches a test's static checks against a candidate's text.
 */
final class Static_Analysis {

	/**
	 * Match every pattern.
	 *
	 * @param string               $text   The candidate's code, or all its files joined.
	 * @param array<string, mixed> $checks The test's `static_checks`.
	 * @return array{forbidden: list<array<string, mixed>>, required: list<array<string, mixed>>}
	 */
	public static function match( string $text, array $checks ): array {
		Evaluator::arm(); // The candidate could have lowered the limits of the matcher to hide from it.
		$locale = \setlocale( \LC_CTYPE, '0' );
		\setlocale( \LC_CTYPE, 'C' ); // In others, letters without regard to case are other letters.
		$found = array(
			'forbidden' => array(),
			'required'  => array(),
		);
		foreach ( array( 'required', 'forbidden' ) as $kind ) {
			foreach ( (array) ( $checks[ $kind . '_patterns' ] ?? array() ) as $item ) {
				$item    = \is_array( $item ) ? $item : array( 'pattern' => $item );
				$pattern = \is_string( $item['pattern'] ?? null ) ? $item['pattern'] : '';
				$hit     = self::matches( $pattern, $text );

				$found[ $kind ][] = array(
					'pattern'     => $pattern,
					'description' => \is_string( $item['description'] ?? null ) ? $item['description'] : $pattern,
					'severity'    => \is_string( $item['severity'] ?? null ) ? $item['severity'] : 'error',
					'found'       => true === $hit,
					'error'       => \is_string( $hit ) ? $hit : null,
				);
			}
		}
		\setlocale( \LC_CTYPE, false === $locale ? 'C' : $locale );
		return $found;
	}

	/**
	 * Whether a pattern matches, or why it could not be tried.
	 *
	 * A pattern without delimiters is still a regular expression; it is wrapped in tildes, so
	 * that slugs such as `acme/notes` need no escaping.
	 *
	 * @param string $pattern A PCRE pattern.
	 * @param string $text    The text.
	 * @return bool|string
	 */
	public static function matches( string $pattern, string $text ): bool|string {
		$delimited = 1 === \preg_match( '/^[\/#~@!]/', $pattern )
			? $pattern
			: '~' . \str_replace( '~', '\~', $pattern ) . '~';
		\set_error_handler( static fn (): bool => true ); // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_set_error_handler
		try {
			$hit = \preg_match( $delimited, $text );
		} finally {
			\restore_error_handler();
		}
		return false === $hit ? 'the pattern could not be matched: ' . \preg_last_error_msg() : 1 === $hit;
	}
}
