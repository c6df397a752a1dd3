<?php
/*
tries: Lets PHP die of a fatal error when an assertion reaches it, with a success for its last words.
acceptable: [crash, fail]
*/

register_shutdown_function(
	static function () {
		forger_send( forger_verdict( '' ) );
		forger_peek();
	}
);
function forge( $where ) {
	eval( 'function forge_twice() {} function forge_twice() {}' );
}
