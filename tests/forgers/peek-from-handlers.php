<?php
/*
tries: Reads the channel, and the arguments on the stack, when anything of the grader's goes wrong.
acceptable: [fail]
*/

function forge_handler( ...$told ) {
	forger_peek();
	forger_trace( $told );
	forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
	return true;
}
set_error_handler( 'forge_handler' );
set_exception_handler( 'forge_handler' );
header_register_callback( 'forge_handler' );
libxml_set_external_entity_loader( static fn ( ...$told ) => forge_handler( ...$told ) ? null : null );
foreach ( array( 'unserialize_callback_func', 'assert.callback', 'mbstring.http_output_conv_mimetypes', 'user_agent' ) as $setting ) {
	try {
		ini_set( $setting, 'forge_handler' );
	} catch ( Throwable $unknown ) {
		continue;
	}
}
function forge( $where ) {
	set_error_handler( 'forge_handler' );
	set_exception_handler( 'forge_handler' );
	return NAN;
}
