<?php
/*
tries: Leaves the collector one step from a run, so that it runs destructors inside the grader.
acceptable: [fail]
*/

class Forge_Root {
	public $self;
	public function __destruct() {
		if ( 0 === ++$GLOBALS['forge_count'] % 500 ) {
			forger_peek();
			forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		}
	}
}
$GLOBALS['forge_count'] = 0;
ob_start( static fn () => (string) forge( 'buffer' ) );

function forge( $where ) {
	gc_enable();
	$before = gc_status()['runs'];
	for ( $index = 0; $index < 9990 && gc_status()['runs'] === $before; $index++ ) {
		$object       = new Forge_Root();
		$object->self = $object;
		unset( $object );
	}
}
