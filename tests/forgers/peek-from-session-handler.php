<?php
/*
tries: Reads the channel when PHP writes sessions at its end.
acceptable: [fail, tampered]
*/

class Forge_Session implements SessionHandlerInterface {
	public function open( string $path, string $name ): bool {
		return true;
	}
	public function close(): bool {
		return (bool) forger_peek();
	}
	public function read( string $id ): string {
		return '';
	}
	public function write( string $id, string $data ): bool {
		forger_peek();
		return true;
	}
	public function destroy( string $id ): bool {
		return true;
	}
	public function gc( int $lifetime ): int {
		return 0;
	}
}
ini_set( 'session.use_cookies', '0' );
ini_set( 'session.cache_limiter', '' );
session_set_save_handler( new Forge_Session(), true );
session_start();
$_SESSION['forge'] = 1;
function forge( $where ) {
	exit( 0 );
}
