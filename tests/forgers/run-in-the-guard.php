<?php
/*
tries: Puts a directory in the place of the file in which the end of the process is told, so that its error handler is called at that end.
acceptable: [crash]
*/

unlink( '/scratch/output' );
mkdir( '/scratch/output' );
set_error_handler(
	static function () {
		forger_send( forger_verdict( '' ) );
		return true;
	}
);
register_shutdown_function( static fn () => forger_send( forger_verdict( '' ) ) );
eval( 'function forge_twice() {} function forge_twice() {}' );
