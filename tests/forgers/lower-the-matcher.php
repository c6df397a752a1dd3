<?php
/*
tries: Lowers what regular expressions may use, so that forbidden things are not found.
acceptable: [fail]
*/

// eval( 'a thing that the test forbids' );
forge( 'candidate' );

function forge( $where ) {
	ini_set( 'pcre.backtrack_limit', '1' );
	ini_set( 'pcre.recursion_limit', '1' );
	ini_set( 'pcre.jit', '0' );
	setlocale( LC_ALL, 'tr_TR.UTF-8', 'tr_TR', 'C.UTF-8' );
	mb_substitute_character( 0x22 );
	mb_internal_encoding( 'UTF-16' );
	ini_set( 'serialize_precision', '0' );
	ini_set( 'default_charset', 'UTF-7' );
	return true;
}
