<?php
/*
tries: Answers with objects that, asked for their text within a comparison, find in the arguments on the stack what they are compared with.
acceptable: [fail]
*/

class Forge_Listener {
	public function __toString(): string {
		foreach ( array_merge( debug_backtrace(), ( new Exception() )->getTrace() ) as $frame ) {
			forger_trace( isset( $frame['class'] ) ? array() : ( $frame['args'] ?? array() ) );
		}
		return $GLOBALS['forger_found'] ?? '';
	}
}
ini_set( 'zend.exception_ignore_args', '0' );

function forge( $where ) {
	return in_array( $where, array( 'rest', 'hook' ), true ) ? array( 'answer' => new Forge_Listener() ) : new Forge_Listener();
}
