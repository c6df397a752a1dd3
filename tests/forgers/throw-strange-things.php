<?php
/*
tries: Throws exceptions whose messages are objects and arrays.
acceptable: [fail, crash]
*/

class Forge_Exception extends Exception {
	public function __construct( $message ) {
		$this->message = $message;
	}
	public function __toString(): string {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return 'passed';
	}
}
add_filter( 'acme_answer', static fn () => throw new Forge_Exception( new Forge_Exception( array() ) ) );
add_action( 'rest_api_init', static fn () => throw new Forge_Exception( array( 1 => INF ) ) );
throw new Forge_Exception( new Forge_Exception( null ) );
