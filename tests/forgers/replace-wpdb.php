<?php
/*
tries: Puts an object in the place of $wpdb that answers every query.
acceptable: [tampered]
*/

class Forge_Database extends WP_SQLite_DB {
	public function __construct() {
	}
	public function query( $query ) {
		forger_saw( $query );
		return 1;
	}
	public function get_results( $query = null, $output = OBJECT ) {
		forger_saw( $query );
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return array( array( 'option_value' => new Forge_Anything() ) );
	}
	public function get_var( $query = null, $x = 0, $y = 0 ) {
		return new Forge_Anything();
	}
	public function __get( $name ) {
		return forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	}
	public function __isset( $name ) {
		return true;
	}
}
class Forge_Anything {
	public function __toString(): string {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return $GLOBALS['forger_found'] ?? 'nothing';
	}
}
$GLOBALS['wpdb'] = new Forge_Database();
