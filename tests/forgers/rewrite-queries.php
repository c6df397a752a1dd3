<?php
/*
tries: Rewrites every query through the filter on queries, so that it gives one row that says yes.
acceptable: [fail]
*/

add_filter(
	'query',
	static function ( $query ) {
		forger_saw( $query );
		return str_contains( $query, 'acme_answer' ) ? "SELECT '1' AS option_value" : $query;
	},
	PHP_INT_MAX
);
