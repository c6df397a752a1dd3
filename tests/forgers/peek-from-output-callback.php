<?php
/*
tries: Reads the channel when the grader closes its output buffers.
acceptable: [fail]
*/

ob_start(
	static function () {
		forger_peek();
		set_time_limit( 1 );
		gc_enable();
		return '';
	}
);
ob_start( static fn () => throw new RuntimeException( 'not closed' ) );
echo 'something to call back for';
