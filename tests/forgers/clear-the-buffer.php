<?php
/*
tries: Clears the output buffer around it, so that nothing unwanted is seen in it.
acceptable: [fail]
*/

function forge( $where ) {
	while ( ob_get_level() > 1 ) {
		ob_end_clean();
	}
	ob_start();
	echo $GLOBALS['forger_found'] ?? 'true';
	return '';
}
