<?php
/*
tries: Fills what the system gives a process, so that receiving fails, and reads in what runs then.
acceptable: [fail, out_of_memory, crash, timeout]
seconds: 10
memory: 33554432
tests: [function, rest, options]
*/

ini_set( 'memory_limit', '-1' );
class Forge_Handler implements SessionHandlerInterface {
	public function open( string $path, string $name ): bool {
		return true;
	}
	public function close(): bool {
		return true;
	}
	public function read( string $id ): string {
		return '';
	}
	public function write( string $id, string $data ): bool {
		unset( $GLOBALS['forge_ballast'] );
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
session_set_save_handler( new Forge_Handler(), false );
session_start();
$_SESSION['forge'] = 1;

// SQLite says that there is no memory left, where PHP would die of it.
$pdo = new PDO( 'sqlite::memory:' );
$pdo->exec( 'CREATE TABLE ballast ( block )' );
$GLOBALS['forge_ballast'] = $pdo;
foreach ( array( 1 << 24, 1 << 20, 1 << 16, 1 << 12 ) as $bytes ) {
	try {
		while ( true ) {
			$pdo->exec( "INSERT INTO ballast VALUES ( zeroblob( $bytes ) )" );
		}
	} catch ( Throwable $full ) {
		continue;
	}
}
