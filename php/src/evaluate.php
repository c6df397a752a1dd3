<?php
/**
 * The one place in which foreign code is run.
 *
 * Functions and no methods, so that the code gets no class of the grader's for its scope.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Evaluate code in a frame that holds nothing of the grader's, and give what it returns.
 *
 * The code is taken from the variable before it runs: a stack trace shows the present value of
 * each parameter of each frame, and would show an assertion to a callback inside it.
 *
 * @param string $code PHP text without an opening tag.
 */
function evaluate( string $code ): mixed {
	return eval( take( $code ) ); // phpcs:ignore Squiz.PHP.Eval.Discouraged -- This is what a grader does.
}

/**
 * Include a plugin's main file.
 *
 * @param string $file Absolute path.
 */
function load( string $file ): void {
	include_once $file;
}

/**
 * Hand a value over and forget it, so that no frame keeps it while code runs.
 *
 * @param string $value The variable to empty.
 */
function take( string &$value ): string {
	$taken = $value;
	$value = '';
	return $taken;
}

/**
 * Make an argument of a comparing function plain, just before that is called.
 *
 * What computed the argument may have lowered what the matcher of regular expressions may use,
 * and where it fails `! preg_match( '/<script/', $page )` would hold. In another encoding
 * `mb_strpos()` finds as little.
 *
 * See Assertion_Code, which has assertions call this.
 *
 * @param mixed $value The argument.
 * @return mixed The same, with text in the place of objects that can be turned into it.
 */
function plain( mixed $value ): mixed {
	$plain = \Refcompare\text_of( $value, 8 );
	Evaluator::free_matcher();
	\mb_internal_encoding( 'UTF-8' );
	return $plain;
}

/**
 * Make an argument plain that has to be text.
 *
 * @param mixed $value The argument.
 * @return mixed As plain() gives it.
 * @throws \ErrorException Where PHP would complain of null, with the arguments on the stack.
 */
function plain_text( mixed $value ): mixed {
	if ( null === $value ) {
		throw new \ErrorException( 'Passing null to a parameter of type string is deprecated', 0, \E_DEPRECATED );
	}
	return \Refcompare\plain( $value );
}

/**
 * Make an argument plain that has to be an array of texts.
 *
 * @param mixed $value The argument.
 * @return mixed As plain() gives it.
 * @throws \ErrorException Where PHP would complain of an array in it, with the arguments on the stack.
 */
function plain_items( mixed $value ): mixed {
	$plain = \Refcompare\plain( $value );
	foreach ( \is_array( $plain ) ? $plain : array() as $item ) {
		if ( \is_array( $item ) ) {
			throw new \ErrorException( 'Array to string conversion', 0, \E_WARNING );
		}
	}
	return $plain;
}

/**
 * Turn objects into text that can be, also those in an array, with nothing but themselves on the stack.
 *
 * Of NAN PHP 8.5 says that it becomes text, to whoever handles errors by then.
 *
 * @param mixed $value The value.
 * @param int   $depth Levels of arrays to look into.
 */
function text_of( mixed $value, int $depth ): mixed {
	if ( $value instanceof \Stringable || ( \PHP_VERSION_ID >= 80500 && \is_float( $value ) && \is_nan( $value ) ) ) {
		return (string) $value;
	}
	if ( ! \is_array( $value ) || 0 === $depth ) {
		return $value;
	}
	$items = array();
	foreach ( $value as $key => $item ) {
		$items[ $key ] = \Refcompare\text_of( $item, $depth - 1 );
	}
	return $items;
}
