<?php
/*
tries: Leaves an output buffer that nobody can close, whose callback reads the channel.
acceptable: [tampered]
*/

ob_start( static fn () => (string) forger_peek(), 1, 0 );

function forge( $where ) {
	echo str_repeat( 'x', 9000 );
}
