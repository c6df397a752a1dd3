<?php
/*
tries: Defines the constants that the grader uses in the grader's own namespace, so that it does not end its process.
acceptable: [fail]
*/

foreach ( array( 'SIGKILL' => 0, 'SIGTERM' => 0, 'SIGABRT' => 0, 'E_ERROR' => 0, 'MSG_DONTWAIT' => MSG_PEEK, 'PHP_OUTPUT_HANDLER_CLEAN' => 0, 'JSON_PARTIAL_OUTPUT_ON_ERROR' => 0, 'ARRAY_A' => 'OBJECT', 'LC_CTYPE' => 99, 'WP_PLUGIN_DIR' => '/tmp' ) as $constant => $value ) {
	define( 'Refcompare\\' . $constant, $value );
}
register_shutdown_function( 'forger_peek' );
