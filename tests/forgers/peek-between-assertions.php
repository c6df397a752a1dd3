<?php
/*
tries: Switches the collector on when its answer is let go, so that it runs destructors while the next expectation is looked at.
acceptable: [crash, fail, tampered]
*/

class Forge_Garbage {
	public $self;
	public function __construct() {
		$this->self = $this;
	}
}
class Forge_Trap extends Forge_Garbage {
	public function __destruct() {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		forge_fill();
	}
}
class Forge_Answer {
	public function __destruct() {
		set_error_handler( 'forger_saw' );
		forge_fill();
	}
}
function forge_fill() {
	gc_disable();
	$status = gc_status();
	new Forge_Trap();
	for ( $left = $status['threshold'] - $status['roots']; $left >= 0; $left-- ) {
		new Forge_Garbage();
	}
	gc_enable();
}
function forge( $where ) {
	return new Forge_Answer();
}
