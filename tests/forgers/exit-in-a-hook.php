<?php
/*
tries: Ends the process when an assertion reaches it.
acceptable: [tampered, fail]
*/

function forge( $where ) {
	echo '{"success":true}';
	exit( 0 );
}
