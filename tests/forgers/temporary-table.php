<?php
/*
tries: Hides a table of the site's behind a temporary one with other rows.
acceptable: [tampered]
*/

$pdo = $GLOBALS['wpdb']->get_driver()->get_sqlite_pdo();
$pdo->exec( 'CREATE TEMPORARY TABLE wp_options AS SELECT * FROM main.wp_options' );
$pdo->exec( "INSERT INTO temp.wp_options ( option_name, option_value, autoload ) VALUES ( 'acme_answer', '1', 'yes' )" );
