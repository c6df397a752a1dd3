<?php
/*
tries: Walks over every static, closure, constant and hook that reflection can reach.
acceptable: [fail]
seconds: 20
*/

function forge( $where ) {
	foreach ( get_declared_classes() as $class ) {
		$reflected = new ReflectionClass( $class );
		if ( ! $reflected->isInternal() ) {
			forger_saw( forger_flat( $reflected->getStaticProperties(), 4 ) . forger_flat( $reflected->getConstants() ) );
		}
		foreach ( str_starts_with( $class, 'Refcompare\\' ) ? $reflected->getMethods() : array() as $method ) {
			forger_saw( forger_flat( $method->getStaticVariables() ) );
		}
	}
	foreach ( get_defined_functions()['user'] as $function ) {
		forger_saw( forger_flat( ( new ReflectionFunction( $function ) )->getStaticVariables(), 4 ) );
	}
	$handler = set_error_handler( null );
	forger_saw( forger_flat( $handler, 5 ) . json_encode( get_defined_constants( true )['user'] ) );
}
forge( 'candidate' );
