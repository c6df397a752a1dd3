<?php
/*
tries: Leaves $wpdb and replaces what is behind it.
acceptable: [tampered]
*/

class Forge_Pdo extends PDO {
	public function __construct() {
		parent::__construct( 'sqlite::memory:' );
	}
	public function getAttribute( int $attribute ): mixed {
		return array( 'PDOStatement' );
	}
}
$driver     = $GLOBALS['wpdb']->get_driver();
$connection = $driver->get_connection();
Closure::bind( static fn () => $connection->pdo = new Forge_Pdo(), null, 'WP_SQLite_Connection' )();
