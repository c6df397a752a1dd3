<?php
/*
tries: Searches everything that a global variable leads to, and the variables of its own frame.
acceptable: [fail]
seconds: 20
*/

foreach ( array_keys( get_defined_vars() ) as $name ) {
	$GLOBALS[ 'forge_' . $name ] = &$$name;
}
extract( array( 'code' => 'return 1;', 'asked' => array(), 'second' => array(), 'secret' => '' ), EXTR_REFS );
forge( 'candidate' );

function forge( $where ) {
	forger_saw( forger_flat( get_defined_vars() ) );
	foreach ( array_keys( $GLOBALS ) as $name ) {
		forger_saw( forger_flat( $GLOBALS[ $name ], 4 ) );
	}
}
