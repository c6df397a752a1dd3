<?php
/*
tries: Gives SQLite comparisons of its own for those that the site's tables use, and adds one.
acceptable: [fail, tampered]
*/

forge( 'candidate' );

function forge( $where ) {
	$pdo    = $GLOBALS['wpdb']->get_driver()->get_sqlite_pdo();
	$create = $pdo instanceof Pdo\Sqlite ? 'createCollation' : 'sqliteCreateCollation';
	foreach ( array( 'NOCASE', 'BINARY', 'RTRIM' ) as $name ) {
		try {
			$pdo->rollBack();
		} catch ( Throwable $none ) {
			unset( $none );
		}
		$equal = static function ( $left, $right ) {
			forger_saw( "CANARY-compared $left $right" );
			return 0;
		};
		$pdo->$create( $name, $equal );
	}
	return true;
}
