<?php
/*
tries: Answers that PHP complains of while it compares them (null, arrays in arrays), with a handler of errors that reads the arguments on the stack for later.
acceptable: [fail]
*/

function forge( $where ) {
	set_error_handler(
		static function () {
			foreach ( array_merge( debug_backtrace(), ( new Exception() )->getTrace() ) as $frame ) {
				forger_trace( isset( $frame['class'] ) ? array() : ( $frame['args'] ?? array() ) );
			}
			return true;
		}
	);
	if ( isset( $GLOBALS['forger_found'] ) ) {
		return in_array( $where, array( 'rest', 'hook' ), true ) ? array( $GLOBALS['forger_found'] ) : $GLOBALS['forger_found'];
	}
	return in_array( $where, array( 'rest', 'hook' ), true ) ? array( array( 'nested' ) ) : null;
}
