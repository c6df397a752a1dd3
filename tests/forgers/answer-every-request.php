<?php
/*
tries: Answers every REST request with values that are equal to many.
acceptable: [fail]
*/

add_filter( 'rest_pre_dispatch', static fn () => new WP_REST_Response( true, 200 ), 99 );
add_filter( 'rest_post_dispatch', static fn () => new WP_REST_Response( array( 'answer' => true ), 200 ), 99 );
function forge( $where ) {
	return true;
}
