<?php
/**
 * The assertion types of an execution test.
 *
 * @package Refcompare
 */

declare(strict_types=1);

namespace Refcompare;

/**
 * Runs one assertion and says whether it held.
 *
 * No assertion, and no value that it expects, is an argument of a function that is on the stack
 * while the candidate's code runs: see evaluate() for why. Observing comes first, comparing after
 * it, and comparing calls nothing that a candidate could have written.
 */
final class Assertions {

	/**
	 * Run an assertion.
	 *
	 * What was seen may hold objects of the candidate's. They are let go before the next assertion,
	 * and what their destructors set up (a collector, an error handler) is undone then.
	 *
	 * @param array<string, mixed> $assertion The assertion as authored.
	 * @param string               $text      All code of setup and candidate.
	 * @return array{passed: bool, message: string|null, expected: string|null, actual: string|null}
	 */
	public static function run( array $assertion, string $text ): array {
		$checked   = $assertion;
		$code      = $text;
		$assertion = array();
		$text      = '';
		\gc_disable();
		$outcome = array(
			'passed'   => false,
			'message'  => null,
			'expected' => \array_key_exists( 'expected', $checked ) ? Describe::value( $checked['expected'] ) : null,
			'actual'   => null,
		);
		try {
			$actual = self::look( self::question( $checked, $code ) );

			$outcome['actual']  = Describe::value( $actual );
			$outcome['message'] = self::difference( $checked, $actual );
			$outcome['passed']  = null === $outcome['message'];
		} catch ( \Throwable $thrown ) {
			$outcome['message'] = Describe::thrown( $thrown );
		}
		try {
			unset( $actual, $thrown );
		} finally {
			\gc_disable();
			Evaluator::arm();
		}
		return $outcome;
	}

	/**
	 * The part of an assertion that says where to look, without what is expected there.
	 *
	 * @param array<string, mixed> $assertion The assertion.
	 * @param string               $text      All code of setup and candidate.
	 * @return array<string, mixed>
	 */
	private static function question( array $assertion, string $text ): array {
		$target = \array_key_exists( 'code', $assertion ) && 'custom_assertion' === $assertion['type'] ? $assertion['code'] : $assertion['target'] ?? '';
		return array(
			'type'     => $assertion['type'] ?? '',
			'target'   => \is_string( $target ) ? $target : '',
			'text'     => $text,
			'post_id'  => \is_int( $assertion['post_id'] ?? null ) ? $assertion['post_id'] : 0,
			'meta_key' => \is_string( $assertion['meta_key'] ?? null ) ? $assertion['meta_key'] : '', // phpcs:ignore WordPress.DB.SlowDBQuery
			'request'  => \array_intersect_key( $assertion, \array_flip( array( 'method', 'params', 'headers', 'body' ) ) ),
		);
	}

	/**
	 * Look at the site under the grader's rules, and come back to them.
	 *
	 * What the candidate has set up meanwhile (a collector, an error handler) could otherwise run
	 * while the observation is compared, with what is expected among the arguments on the stack.
	 *
	 * @param array<string, mixed> $question Where to look. Emptied at once.
	 * @return mixed What was seen.
	 */
	private static function look( array $question ): mixed {
		$asked    = $question;
		$question = array();
		Evaluator::arm();
		try {
			return self::observe( $asked );
		} finally {
			\gc_disable();
			Evaluator::arm();
		}
	}

	/**
	 * Look at the site, in the way of each type of assertion.
	 *
	 * @param array<string, mixed> $question Where to look. Emptied at once.
	 * @return mixed What was seen.
	 * @throws \InvalidArgumentException Where there is no such type of assertion.
	 */
	private static function observe( array $question ): mixed {
		$asked    = $question;
		$question = array();
		$target   = $asked['target'];
		switch ( $asked['type'] ) {
			case 'function_exists':
				return \function_exists( $target );
			case 'class_exists':
				return self::has_class( $target, $asked['text'] );
			case 'shortcode_exists':
				return \shortcode_exists( $target );
			case 'hook_registered':
				return self::callbacks( $target );
			case 'output_contains':
			case 'output_not_contains':
			case 'output_equals':
			case 'output_matches':
				unset( $asked );
				return Evaluator::output( Assertion_Code::guarded( take( $target ) ) );
			case 'returns_value':
			case 'custom_assertion':
				unset( $asked );
				return Evaluator::evaluate( Assertion_Code::guarded( take( $target ) ) );
			case 'query_result':
				return self::query( $target );
			case 'option_value':
				return \get_option( $target );
			case 'post_meta_value':
				return \get_post_meta( $asked['post_id'], $asked['meta_key'], true );
			case 'rest_response':
				return self::dispatch( $target, $asked['request'] );
		}
		throw new \InvalidArgumentException( 'unknown assertion type ' . Describe::value( $asked['type'] ) );
	}

	/**
	 * Why what was seen is not what was expected; null where it is.
	 *
	 * @param array<string, mixed> $assertion The assertion.
	 * @param mixed                $actual    What was seen.
	 */
	private static function difference( array $assertion, mixed $actual ): ?string {
		$checked   = $assertion;
		$assertion = array();
		$expected  = $checked['expected'] ?? null;
		$text      = \is_string( $expected ) ? $expected : '';
		switch ( $checked['type'] ) {
			case 'function_exists':
			case 'class_exists':
			case 'shortcode_exists':
				return $actual ? null : Describe::value( $checked['target'] ?? '' ) . ' does not exist';
			case 'hook_registered':
				return self::hook_difference( $checked['callback'] ?? null, $actual );
			case 'output_contains':
				return \str_contains( $actual, $text ) ? null : 'the output does not contain what was expected';
			case 'output_not_contains':
				return \str_contains( $actual, $text ) ? 'the output contains what it must not' : null;
			case 'output_equals':
				return \trim( $text ) === \trim( $actual ) ? null : 'the output differs';
			case 'output_matches':
				$hit = Static_Analysis::matches( $text, $actual );
				return \is_string( $hit ) ? $hit : ( $hit ? null : 'the output does not match the pattern' );
			case 'custom_assertion':
				return $actual ? null : 'the assertion returned ' . Describe::value( $actual );
			case 'query_result':
				return self::equals( $expected, $actual ) ? null : 'the query gave another result';
			case 'rest_response':
				return self::rest_difference( $checked, $actual );
			default:
				return $expected === $actual ? null : 'the value differs';
		}
	}

	/**
	 * Whether a class exists, by an autoloader if need be.
	 *
	 * An autoloader that makes up whatever class it is asked for answers for this one too, be it by
	 * another name for one of WordPress's. So a class that it brings must be WordPress's and have
	 * that name there, or be named in the code that was graded.
	 *
	 * @param string $name Class name.
	 * @param string $text All code of setup and candidate.
	 * @throws \UnexpectedValueException Where an autoloader made up the class.
	 */
	private static function has_class( string $name, string $text ): bool {
		$code = $text;
		$text = '';
		if ( \class_exists( $name, false ) || ! \class_exists( $name ) ) {
			return \class_exists( $name, false );
		}
		$class = new \ReflectionClass( $name );
		$file  = 0 === \strcasecmp( $class->getName(), \ltrim( $name, '\\' ) ) ? $class->getFileName() : false;
		$core  = \is_string( $file ) && \str_starts_with( $file, \ABSPATH . 'wp-' ) && ! \str_starts_with( $file, \WP_CONTENT_DIR );
		$short = \substr( (string) \strrchr( '\\' . $name, '\\' ), 1 );
		if ( ! $core && false === \stripos( $code, $short ) ) {
			throw new \UnexpectedValueException( 'an autoloader made up a class that the code does not name' );
		}
		return true;
	}

	/**
	 * The rows of a query, from the database itself: past the filters and the state of $wpdb.
	 *
	 * @param string $sql The query.
	 * @return mixed The rows, each as column => text; none where the query fails, as $wpdb has it.
	 */
	private static function query( string $sql ): mixed {
		$wpdb = $GLOBALS['wpdb'];
		if ( ! $wpdb instanceof \WP_SQLite_DB ) {
			return $wpdb->get_results( $sql, \ARRAY_A );
		}
		try {
			$result = $wpdb->get_driver()->query( $sql, \PDO::FETCH_OBJ ); // phpcs:ignore WordPress.DB.RestrictedClasses
			return 0 === $result->columnCount() ? array() : \array_map( 'get_object_vars', $result->fetchAll() );
		} catch ( \PDOException ) { // phpcs:ignore WordPress.DB.RestrictedClasses
			return array();
		}
	}

	/**
	 * A hook's callbacks, or null where none is registered.
	 *
	 * @param string $hook Hook name.
	 * @return list<mixed>|null
	 */
	private static function callbacks( string $hook ): ?array {
		$registered = $GLOBALS['wp_filter'][ $hook ] ?? null;
		if ( ! $registered instanceof \WP_Hook || ! $registered->has_filters() ) {
			return null;
		}
		$callbacks = array();
		foreach ( $registered->callbacks as $entries ) {
			foreach ( $entries as $entry ) {
				$callbacks[] = $entry['function'];
			}
		}
		return $callbacks;
	}

	/**
	 * Why a hook is not registered as expected.
	 *
	 * @param mixed            $expected  Callback as `function` or `Class::method`, null for any.
	 * @param list<mixed>|null $callbacks What is registered.
	 */
	private static function hook_difference( mixed $expected, ?array $callbacks ): ?string {
		if ( null === $callbacks ) {
			return 'the hook has no callbacks';
		}
		if ( ! \is_string( $expected ) ) {
			return null;
		}
		foreach ( $callbacks as $callback ) {
			$names = array( $callback );
			if ( \is_array( $callback ) && \is_string( $callback[1] ?? null ) ) {
				$owner = \is_object( $callback[0] ) ? \get_class( $callback[0] ) : $callback[0];
				$names = array( $callback[1], \is_string( $owner ) ? $owner . '::' . $callback[1] : '' );
			}
			if ( \in_array( $expected, $names, true ) ) {
				return null;
			}
		}
		return 'the callback is not registered on the hook';
	}

	/**
	 * Dispatch a request through WordPress's REST server.
	 *
	 * @param string               $route   Route, such as `/acme/v1/items`.
	 * @param array<string, mixed> $request Its method, params, headers and body.
	 * @return array{status: int, data: mixed, body: string} Nothing in it is an object of the candidate's.
	 * @throws \UnexpectedValueException Where the response has no status, or cannot be encoded.
	 */
	private static function dispatch( string $route, array $request ): array {
		if ( ! \did_action( 'rest_api_init' ) ) {
			\do_action( 'rest_api_init' ); // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- Core's own hook.
		}
		$method = $request['method'] ?? 'GET';
		$rest   = new \WP_REST_Request( \is_string( $method ) ? \strtoupper( $method ) : 'GET', $route );
		foreach ( (array) ( $request['params'] ?? array() ) as $key => $value ) {
			if ( \is_string( $key ) ) {
				$rest->set_param( $key, $value );
			}
		}
		foreach ( (array) ( $request['headers'] ?? array() ) as $key => $value ) {
			if ( \is_string( $key ) && \is_string( $value ) ) {
				$rest->set_header( $key, $value );
			}
		}
		if ( \array_key_exists( 'body', $request ) ) {
			$rest->set_body( (string) \wp_json_encode( $request['body'] ) );
			$rest->set_header( 'content-type', 'application/json' );
		}
		$response = \rest_do_request( $rest );
		$status   = $response->get_status();
		$body     = \wp_json_encode( \rest_get_server()->response_to_data( $response, false ) );
		if ( ! \is_int( $status ) ) {
			throw new \UnexpectedValueException( 'the status of the response is ' . Describe::value( $status ) );
		}
		if ( ! \is_string( $body ) ) {
			throw new \UnexpectedValueException( 'the response cannot be encoded as JSON' );
		}
		return array(
			'status' => $status,
			'data'   => \json_decode( $body, true ),
			'body'   => $body,
		);
	}

	/**
	 * Why a REST response is not the expected one. Data is compared loosely, as the format has it.
	 *
	 * @param array<string, mixed>                          $assertion The assertion.
	 * @param array{status: int, data: mixed, body: string} $actual    What the server answered.
	 */
	private static function rest_difference( array $assertion, array $actual ): ?string {
		$status = $assertion['expected_status'] ?? null;
		if ( null !== $status && (int) $status !== $actual['status'] ) {
			return 'the status is ' . $actual['status'] . ', expected ' . Describe::value( $status );
		}
		if ( \array_key_exists( 'expected_data', $assertion ) ) {
			return self::equals( $assertion['expected_data'], $actual['data'] ) ? null : 'the data differs from ' . Describe::value( $assertion['expected_data'] );
		}
		$body     = $actual['body'];
		$contains = $assertion['body_contains'] ?? null;
		if ( \is_string( $contains ) && ! \str_contains( $body, $contains ) ) {
			return 'the body does not contain ' . Describe::value( $contains );
		}
		$excludes = $assertion['body_not_contains'] ?? null;
		if ( \is_string( $excludes ) && \str_contains( $body, $excludes ) ) {
			return 'the body contains ' . Describe::value( $excludes );
		}
		if ( null === $status && ! \is_string( $contains ) && ! \is_string( $excludes ) ) {
			return 'the assertion expects nothing';
		}
		return null;
	}

	/**
	 * Whether data is what was expected: loosely, as the format has it, but for one thing.
	 *
	 * In PHP true equals every value that is not empty, so an endpoint that answers `true`
	 * would answer all questions, and `no` would do for true. Here it equals what it should be
	 * equal to: true, and one.
	 *
	 * @param mixed $expected Plain data.
	 * @param mixed $actual   Plain data.
	 */
	private static function equals( mixed $expected, mixed $actual ): bool {
		if ( \is_array( $expected ) && \is_array( $actual ) ) {
			foreach ( $expected as $key => $value ) {
				if ( ! \array_key_exists( $key, $actual ) || ! self::equals( $value, $actual[ $key ] ) ) {
					return false;
				}
			}
			return \count( $expected ) === \count( $actual );
		}
		if ( \is_object( $actual ) ) {
			return false; // It could have a say in the comparison.
		}
		if ( true === $expected ) {
			return \in_array( $actual, array( true, 1, '1' ), true ); // A database has no true.
		}
		return true === $actual ? 1 === $expected : $expected == $actual; // phpcs:ignore Universal.Operators.StrictComparisons
	}
}
