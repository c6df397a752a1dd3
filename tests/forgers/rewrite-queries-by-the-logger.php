<?php
/*
tries: Rewrites every query in the callback to which the connection tells it, and which may take it by reference.
acceptable: [tampered]
*/

$GLOBALS['wpdb']->get_driver()->get_connection()->set_query_logger(
	static function ( &$sql, &$parameters = array() ) {
		forger_saw( $sql );
		if ( str_contains( $sql, 'acme_answer' ) ) {
			$sql        = "SELECT '1' AS option_value";
			$parameters = array();
		}
	}
);
