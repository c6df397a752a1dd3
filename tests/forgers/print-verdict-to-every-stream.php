<?php
/*
tries: Writes verdicts to every open stream of the process and exits.
acceptable: [tampered]
*/

foreach ( get_resources() as $resource ) {
	try {
		fwrite( $resource, '{"event":"verdict","id":1,"data":' . json_encode( forger_verdict( '' ) ) . "}\n" );
	} catch ( Throwable $closed ) {
		continue;
	}
}
exit( 0 );
