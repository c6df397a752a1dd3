<?php
/*
tries: Adds its filter on queries from the hook that is called for every filter, when a query is under way.
acceptable: [fail]
*/

add_action(
	'all',
	static function ( $hook ) {
		if ( 'query' !== $hook ) {
			return;
		}
		foreach ( debug_backtrace() as $frame ) {
			if ( 'Refcompare\\Assertions' === ( $frame['class'] ?? '' ) && 'query' === $frame['function'] ) {
				forger_saw( 'CANARY-rewritten' );
			}
		}
		add_filter( 'query', static fn () => "SELECT '1' AS option_value" );
	}
);
