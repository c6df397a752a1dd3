<?php
/*
tries: Has the database asked for the tables that it likes, by a schema of its own.
acceptable: [tampered]
*/

class Forge_Schema extends WP_SQLite_Information_Schema_Builder {
	public function __construct() {
	}
	public function temporary_table_exists( string $table_name ): bool {
		return false;
	}
}
Closure::bind( static fn ( $driver ) => $driver->information_schema_builder = new Forge_Schema(), null, 'WP_MySQL_On_SQLite' )( $GLOBALS['wpdb']->get_driver() );
