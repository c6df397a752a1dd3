<?php
/*
tries: Answers whatever option is asked for.
acceptable: [fail]
*/

foreach ( array( '1', 1, true, array(), '' ) as $value ) {
	add_filter( 'pre_option', static fn () => $value );
}
add_filter( 'pre_option_acme_answer', static fn () => true, 99 );
add_filter( 'option_acme_answer', static fn () => true, 99 );
add_filter( 'default_option_acme_answer', static fn () => true, 99 );
