<?php
/*
tries: Replaces $wpdb only once an assertion runs.
acceptable: [fail, tampered]
*/

class Forge_Later extends wpdb {
	public function __construct() {
	}
	public function get_results( $query = null, $output = OBJECT ) {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return array( array( 'option_value' => true ) );
	}
	public function get_var( $query = null, $x = 0, $y = 0 ) {
		return true;
	}
	public function get_row( $query = null, $output = OBJECT, $y = 0 ) {
		return (object) array( 'option_value' => true );
	}
}
function forge( $where ) {
	$GLOBALS['wpdb'] = new Forge_Later();
	return true;
}
