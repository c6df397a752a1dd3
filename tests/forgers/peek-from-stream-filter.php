<?php
/*
tries: Filters every stream of the process, in case the grader reads one.
acceptable: [fail]
*/

class Forge_Filter extends php_user_filter {
	public function filter( $in, $out, &$consumed, bool $closing ): int {
		while ( $bucket = stream_bucket_make_writeable( $in ) ) {
			forger_saw( $bucket->data );
			$consumed += $bucket->datalen;
			stream_bucket_append( $out, $bucket );
		}
		return PSFS_PASS_ON;
	}
}
stream_filter_register( 'forge', 'Forge_Filter' );
foreach ( get_resources() as $resource ) {
	try {
		stream_filter_append( $resource, 'forge' );
	} catch ( Throwable $closed ) {
		continue;
	}
}
