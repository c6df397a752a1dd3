<?php
/*
tries: Gives the REST server a response whose status is an object that looks around when it is printed.
acceptable: [fail]
*/

class Forge_Status {
	public function __toString(): string {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return '200';
	}
}
class Forge_Response extends WP_REST_Response {
	public function get_status() {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return new Forge_Status();
	}
	public function get_data() {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		return array( 'answer' => $GLOBALS['forger_found'] ?? true );
	}
}
function forge( $where ) {
	return 'rest' === $where ? new Forge_Response() : new Forge_Status();
}
