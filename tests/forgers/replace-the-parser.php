<?php
/*
tries: Has every query understood as another one, by a parser of its own.
acceptable: [tampered, fail]
*/

class Forge_Parser extends WP_MySQL_Parser {
	public function __construct() {
	}
	public function reset_tokens( array $tokens ): void {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	}
	public function parse() {
		return null;
	}
}
Closure::bind( static fn ( $driver ) => $driver->mysql_parser = new Forge_Parser(), null, 'WP_MySQL_On_SQLite' )( $GLOBALS['wpdb']->get_driver() );
