<?php
/*
tries: Exits from a hook and sends its verdict from a shutdown function, a destructor and an output callback.
acceptable: [tampered]
*/

register_shutdown_function( static fn () => forger_send( forger_verdict( '' ) ) );
class Forge_At_End {
	public function __destruct() {
		forger_send( forger_verdict( '' ) );
	}
}
$GLOBALS['forge_at_end'] = new Forge_At_End();

function forge( $where ) {
	ob_start( static fn () => (string) forger_send( forger_verdict( '' ) ) );
	exit( 0 );
}
