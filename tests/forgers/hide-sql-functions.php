<?php
/*
tries: Replaces SQL functions and hides that behind a table named like the list of functions.
acceptable: [fail, tampered]
*/

$pdo       = $GLOBALS['wpdb']->get_driver()->get_sqlite_pdo();
$functions = $pdo->query( 'PRAGMA function_list' )->fetchAll( PDO::FETCH_NUM );
$pdo->exec( 'CREATE TABLE pragma_function_list ( name, builtin, type, enc, narg, flags )' );
foreach ( $functions as $row ) {
	$pdo->prepare( 'INSERT INTO pragma_function_list VALUES ( ?, ?, ?, ?, ?, ? )' )->execute( $row );
}
$create = $pdo instanceof Pdo\Sqlite ? 'createFunction' : 'sqliteCreateFunction';
$pdo->$create( 'lower', static fn ( $text ) => forger_saw( (string) $text ), 1 );
