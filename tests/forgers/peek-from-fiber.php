<?php
/*
tries: Keeps a fiber suspended and resumes it from hooks, destructors and callbacks.
acceptable: [fail]
*/

$GLOBALS['forge_fiber'] = new Fiber(
	static function () {
		try {
			while ( true ) {
				forger_peek();
				forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
				Fiber::suspend();
			}
		} finally {
			forger_peek();
		}
	}
);
$GLOBALS['forge_fiber']->start();

function forge( $where ) {
	forger_trace( ( new ReflectionFiber( $GLOBALS['forge_fiber'] ) )->getTrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	$GLOBALS['forge_fiber']->resume();
}
