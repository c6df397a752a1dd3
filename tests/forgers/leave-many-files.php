<?php
/*
tries: Leaves so many files that removing them takes longer than a test.
acceptable: [fail, timeout]
seconds: 20
timed: true
tests: [function, rest, options]
*/

for ( $index = 0; $index < 70000; $index++ ) {
	try {
		touch( '/tmp/' . $index );
	} catch ( Throwable $full ) {
		break;
	}
}
