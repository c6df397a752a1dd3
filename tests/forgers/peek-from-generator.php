<?php
/*
tries: Leaves a generator whose last words read the channel.
acceptable: [fail]
*/

function forge_generator() {
	try {
		while ( true ) {
			yield forger_peek();
		}
	} finally {
		forger_peek();
	}
}
$generator = forge_generator();
$generator->current();
$GLOBALS['forge_generator'] = array( $generator );
$GLOBALS['forge_generator'][] = &$GLOBALS['forge_generator'];
unset( $GLOBALS['forge_generator'], $generator );

function forge( $where ) {
	foreach ( forge_generator() as $seen ) {
		return null;
	}
}
