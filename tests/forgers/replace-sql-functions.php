<?php
/*
tries: Gives SQLite functions of its own for those that queries use.
acceptable: [fail, tampered]
*/

forge( 'candidate' );

function forge( $where ) {
	$pdo = $GLOBALS['wpdb']->get_driver()->get_sqlite_pdo();
	foreach ( array( 'lower', 'upper', 'length', 'substr', 'count', 'coalesce', 'cast', 'replace', 'now', 'if', 'regexp', 'like' ) as $function ) {
		foreach ( array( 1, 2, 3, -1 ) as $arguments ) {
			try {
				$pdo->sqliteCreateFunction( $function, static fn ( ...$told ) => forger_saw( forger_flat( $told ) ), $arguments );
			} catch ( Throwable $refused ) {
				continue;
			}
		}
	}
	return true;
}
