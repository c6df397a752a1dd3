<?php
/*
tries: Puts wrappers of its own in the place of file:// and php://.
acceptable: [fail, crash]
*/

class Forge_Wrapper {
	public $context;
	public function stream_open( $path, $mode, $options, &$opened ) {
		forger_saw( $path );
		return false;
	}
	public function url_stat( $path, $flags ) {
		return false;
	}
}
forge( 'candidate' );

function forge( $where ) {
	foreach ( array( 'file', 'php', 'glob', 'phar', 'data' ) as $protocol ) {
		if ( function_exists( 'stream_wrapper_unregister' ) ) {
			stream_wrapper_unregister( $protocol );
			stream_wrapper_register( $protocol, 'Forge_Wrapper' );
		}
	}
}
