<?php
/*
tries: Reads the channel when the grader asks for a class.
acceptable: [fail]
*/

spl_autoload_register(
	static function ( $class ) {
		forger_peek();
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	},
	true,
	true
);
