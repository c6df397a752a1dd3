<?php
/*
tries: Reads the channel from a tick function.
acceptable: [fail]
*/

declare( ticks = 1 );
register_tick_function( 'forger_peek' );

function forge( $where ) {
	forger_peek();
}
