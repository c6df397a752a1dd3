<?php
/*
tries: Declares the functions that the grader calls in the grader's own namespace, where an unqualified call finds them first.
acceptable: [fail]
*/

namespace Refcompare;

function forge_shadow( $arguments ) {
	\forger_saw( \forger_flat( $arguments, 5 ) . \json_encode( $arguments ) );
}
foreach ( array( 'json_encode', 'json_decode', 'hash_hmac', 'socket_write', 'socket_recv', 'is_array', 'is_string', 'substr', 'strlen', 'trim', 'str_contains', 'array_key_exists', 'posix_kill', 'posix_getpid', 'get_option', 'preg_match', 'ini_set', 'gc_disable', 'set_error_handler', 'ob_get_level', 'ob_start', 'ob_end_clean', 'in_array', 'count', 'set_time_limit', 'get_class', 'is_object', 'str_starts_with', 'str_ends_with', 'implode', 'mb_scrub', 'is_int', 'function_exists', 'class_exists', 'rest_do_request', 'shortcode_exists' ) as $function ) {
	if ( ! \function_exists( __NAMESPACE__ . '\\' . $function ) ) {
		eval( "namespace Refcompare; function $function( ...\$arguments ) { forge_shadow( \$arguments ); return \\$function( ...\$arguments ); }" );
	}
}
