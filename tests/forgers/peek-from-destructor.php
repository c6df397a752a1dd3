<?php
/*
tries: Reads the channel from a destructor that garbage collection runs, and sets the next trap there.
acceptable: [fail]
*/

class Forge_Cycle {
	public $self;
	public $left;
	public function __construct( $left ) {
		$this->self = $this;
		$this->left = $left;
	}
	public function __destruct() {
		if ( $this->left > 0 ) {
			forger_peek();
			new Forge_Cycle( $this->left - 1 );
		}
		gc_enable();
	}
}
for ( $index = 0; $index < 9000; $index++ ) {
	new Forge_Cycle( 0 );
}
new Forge_Cycle( 3 );
