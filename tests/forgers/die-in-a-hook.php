<?php
/*
tries: Ends the process the way of WordPress when an assertion reaches it.
acceptable: [tampered, fail]
*/

function forge( $where ) {
	wp_die( 'done', 'done', array( 'response' => 200 ) );
}
