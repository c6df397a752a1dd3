<?php
/*
tries: Puts another object cache in place, which knows every key.
acceptable: [tampered, crash]
*/

class Forge_Cache extends WP_Object_Cache {
	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		forger_saw( (string) $key );
		$found = true;
		return 'alloptions' === $key ? array( 'acme_answer' => true ) : true;
	}
}
$GLOBALS['wp_object_cache'] = new Forge_Cache();
