<?php
/*
tries: Hides a table behind a temporary one, and the temporary one from the table that lists those.
acceptable: [tampered]
*/

$pdo = $GLOBALS['wpdb']->get_driver()->get_sqlite_pdo();
$pdo->exec( 'CREATE TEMPORARY TABLE wp_options AS SELECT * FROM main.wp_options' );
$pdo->exec( "INSERT INTO temp.wp_options ( option_name, option_value, autoload ) VALUES ( 'acme_answer', '1', 'yes' )" );
$pdo->exec( 'PRAGMA writable_schema = 1' );
$pdo->exec( "DELETE FROM sqlite_temp_master WHERE name = 'wp_options'" );
$pdo->exec( 'PRAGMA writable_schema = 0' );
