<?php
/**
 * The code of an assertion, made safe against answers that listen.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Has answers turned into text before they are compared, where PHP would do so in between.
 *
 * An object that can be turned into text may look at the stack when it is asked to. PHP asks for
 * the text of the first argument of `str_contains( acme_page(), 'Open until nine' )` while it calls
 * the function, and what is looked for lies on the stack then: the object could answer just that.
 * So each argument that has to be computed becomes text first, with nothing but itself on the
 * stack, and the matcher gets its limits back then. Of null in the place of text, and of an array in
 * an array of texts, PHP would complain to whoever handles errors by then; that comes first, too. For
 * values of any other kind, and for objects that do not listen, all this changes nothing.
 */
final class Assertion_Code {

	/**
	 * Functions that compare what their first two arguments are.
	 */
	private const COMPARING = array( 'array_keys', 'array_search', 'bccomp', 'fnmatch', 'grapheme_stripos', 'grapheme_strpos', 'hash_equals', 'iconv_strpos', 'in_array', 'levenshtein', 'mb_stripos', 'mb_stristr', 'mb_strpos', 'mb_strrpos', 'mb_strstr', 'mb_substr_count', 'preg_grep', 'preg_match', 'preg_match_all', 'similar_text', 'str_contains', 'str_ends_with', 'str_starts_with', 'strcasecmp', 'strchr', 'strcmp', 'strcoll', 'stripos', 'stristr', 'strnatcasecmp', 'strnatcmp', 'strncasecmp', 'strncmp', 'strpbrk', 'strpos', 'strrchr', 'strripos', 'strrpos', 'strstr', 'substr_compare', 'substr_count', 'version_compare' );

	/**
	 * Functions that compare what all of their arguments are.
	 */
	private const COMPARING_ALL = array( 'array_diff', 'array_diff_assoc', 'array_intersect', 'array_intersect_assoc', 'array_udiff', 'array_udiff_assoc', 'array_uintersect', 'array_uintersect_assoc' );

	/**
	 * Functions that turn each item of their arrays into text, and the arrays that hold these.
	 */
	private const ITEMS = array( 'array_diff' => 0, 'array_diff_assoc' => 0, 'array_intersect' => 0, 'array_intersect_assoc' => 0, 'preg_grep' => 1 ); // phpcs:ignore WordPress.Arrays.ArrayDeclarationSpacing.AssociativeArrayFound

	/**
	 * Functions that take more than text.
	 */
	private const ANY_KIND = array( 'array_keys', 'array_search', 'array_udiff', 'array_udiff_assoc', 'array_uintersect', 'array_uintersect_assoc', 'hash_equals', 'in_array' );

	/**
	 * Functions that turn nothing into text where a third argument says so.
	 */
	private const STRICT = array( 'array_keys', 'array_search', 'in_array' );

	private const OPENING  = array( '(', '[', '{', '#[' );
	private const CLOSING  = array( ')', ']', '}' );
	private const NO_CALLS = array( \T_OBJECT_OPERATOR, \T_NULLSAFE_OBJECT_OPERATOR, \T_DOUBLE_COLON, \T_FUNCTION, \T_NEW );
	private const BLANK    = array( \T_WHITESPACE, \T_COMMENT, \T_DOC_COMMENT );

	/**
	 * Give code that does the same, with the arguments of comparing functions made plain.
	 *
	 * Lines stay where they are. What cannot be understood is left as it is.
	 *
	 * @param string $code PHP text without an opening tag.
	 */
	public static function guarded( string $code ): string {
		$tokens = \PhpToken::tokenize( '<?php ' . $code );
		\array_shift( $tokens );
		return self::rewrite( $tokens );
	}

	/**
	 * Rewrite the calls in a run of tokens.
	 *
	 * @param list<\PhpToken> $tokens The tokens.
	 */
	private static function rewrite( array $tokens ): string {
		$code     = '';
		$previous = null;
		for ( $index = 0, $count = \count( $tokens ); $index < $count; $index++ ) {
			$token = $tokens[ $index ];
			$code .= $token->text;
			if ( $token->is( self::BLANK ) ) {
				continue;
			}
			$name = \strtolower( \ltrim( $token->text, '\\' ) );
			$open = self::after( $tokens, $index );
			$all  = \in_array( $name, self::COMPARING_ALL, true );
			if ( $token->is( array( \T_STRING, \T_NAME_FULLY_QUALIFIED ) ) && ( $all || \in_array( $name, self::COMPARING, true ) )
				&& '(' === ( $tokens[ $open ]->text ?? '' ) && ! ( null !== $previous && $previous->is( self::NO_CALLS ) ) ) {
				list( $arguments, $end ) = self::arguments( $tokens, $open );
				$code                   .= self::call( $name, \array_slice( $tokens, $index + 1, $open - $index ), $arguments, $all );
				$index                   = $end - 1;
			}
			$previous = $token;
		}
		return $code;
	}

	/**
	 * Write a call's parenthesis and arguments, up to the closing one.
	 *
	 * @param string                $name      The function.
	 * @param list<\PhpToken>       $opening   What lies between its name and the first argument.
	 * @param list<list<\PhpToken>> $arguments The arguments.
	 * @param bool                  $all       Whether all of them are compared, or the first two.
	 */
	private static function call( string $name, array $opening, array $arguments, bool $all ): string {
		$third  = \strtolower( \trim( self::text( $arguments[2] ?? array() ) ) );
		$as_are = \in_array( $name, self::STRICT, true ) && 'true' === $third || ( 'array_keys' === $name && ! isset( $arguments[1] ) );
		foreach ( $arguments as $position => $argument ) {
			$start = self::start( $argument );
			$named = \array_splice( $argument, 0, $start );
			$inner = self::rewrite( $argument );
			$plain = ! $as_are && ( $all || $position < 2 ) && self::is_computed( $argument );

			$arguments[ $position ] = self::text( $named ) . ( $plain ? self::guard( $name, $position ) . "( $inner )" : $inner );
		}
		return self::text( $opening ) . \implode( ',', $arguments );
	}

	/**
	 * What makes an argument plain, so that PHP finds nothing in it to complain of while it compares.
	 *
	 * @param string $name     The function.
	 * @param int    $position The argument's, from 0.
	 */
	private static function guard( string $name, int $position ): string {
		if ( $position >= ( self::ITEMS[ $name ] ?? \PHP_INT_MAX ) ) {
			return '\\Refcompare\\plain_items';
		}
		return \in_array( $name, self::ANY_KIND, true ) ? '\\Refcompare\\plain' : '\\Refcompare\\plain_text';
	}

	/**
	 * Where the expression of an argument starts, which may have a name before it.
	 *
	 * @param list<\PhpToken> $argument The tokens.
	 */
	private static function start( array $argument ): int {
		$name  = self::after( $argument, -1 );
		$colon = self::after( $argument, $name );
		return ':' === ( $argument[ $colon ]->text ?? '' ) && $argument[ $name ]->is( \T_STRING ) ? $colon + 1 : 0;
	}

	/**
	 * Whether an argument is an expression whose value is not known before it runs.
	 *
	 * @param list<\PhpToken> $argument The tokens, without a name before it.
	 */
	private static function is_computed( array $argument ): bool {
		$first = self::after( $argument, -1 );
		if ( ! isset( $argument[ $first ] ) || $argument[ $first ]->is( \T_ELLIPSIS ) ) {
			return false; // None, or what cannot be an argument of another function.
		}
		$literal = $argument[ $first ]->is( array( \T_CONSTANT_ENCAPSED_STRING, \T_LNUMBER, \T_DNUMBER ) );
		return ! $literal || isset( $argument[ self::after( $argument, $first ) ] );
	}

	/**
	 * The arguments of a call.
	 *
	 * @param list<\PhpToken> $tokens The tokens.
	 * @param int             $open   Where its opening parenthesis is.
	 * @return array{list<list<\PhpToken>>, int} The arguments, and where the closing parenthesis is.
	 */
	private static function arguments( array $tokens, int $open ): array {
		$arguments = array( array() );
		$depth     = 0;
		for ( $index = $open + 1, $count = \count( $tokens ); $index < $count; $index++ ) {
			$token = $tokens[ $index ];
			if ( $token->is( self::OPENING ) || $token->is( array( \T_CURLY_OPEN, \T_DOLLAR_OPEN_CURLY_BRACES ) ) ) {
				++$depth;
			} elseif ( $token->is( self::CLOSING ) && --$depth < 0 ) {
				break;
			}
			if ( 0 === $depth && ',' === $token->text ) {
				$arguments[] = array();
			} else {
				$arguments[ \count( $arguments ) - 1 ][] = $token;
			}
		}
		return array( $arguments, $index );
	}

	/**
	 * Where the next token is that says something.
	 *
	 * @param list<\PhpToken> $tokens The tokens.
	 * @param int             $index  Where to start, not counted.
	 */
	private static function after( array $tokens, int $index ): int {
		do {
			++$index;
		} while ( isset( $tokens[ $index ] ) && $tokens[ $index ]->is( self::BLANK ) );
		return $index;
	}

	/**
	 * Tokens as they were.
	 *
	 * @param list<\PhpToken> $tokens The tokens.
	 */
	private static function text( array $tokens ): string {
		return \implode( '', \array_column( $tokens, 'text' ) );
	}
}
