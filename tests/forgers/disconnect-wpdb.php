<?php
/*
tries: Tells $wpdb that it is not connected, so that every query gives the rows that it was left with.
acceptable: [tampered]
*/

$GLOBALS['wpdb']->ready       = false;
$GLOBALS['wpdb']->last_result = array( (object) array( 'option_value' => '1' ) );
