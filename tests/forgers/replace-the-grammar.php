<?php
/*
tries: Changes the grammar by which queries are understood.
acceptable: [tampered]
*/

$grammar = ( new ReflectionProperty( 'WP_MySQL_On_SQLite', 'mysql_grammar' ) )->getValue();
foreach ( ( new ReflectionObject( $grammar ) )->getProperties() as $property ) {
	$rules = $property->getValue( $grammar );
	if ( is_array( $rules ) && $rules ) {
		array_pop( $rules );
		$property->setValue( $grammar, $rules );
	}
}
