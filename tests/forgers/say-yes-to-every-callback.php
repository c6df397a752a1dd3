<?php
/*
tries: Puts an object that knows every callback among those of a hook.
acceptable: [tampered]
*/

class Forge_Callbacks extends ArrayObject {
	public function offsetExists( mixed $key ): bool {
		forger_saw( (string) $key );
		return true;
	}
}
add_action( 'acme_saved', '__return_true' );
$GLOBALS['wp_filter']['acme_saved']->callbacks[10] = new Forge_Callbacks();
