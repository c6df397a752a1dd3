<?php
/*
tries: Puts objects that know every name in the place of the arrays in which WordPress looks up hooks, post types, taxonomies, blocks and what has happened.
acceptable: [tampered]
*/

class Forge_Register extends ArrayObject {
	public function offsetExists( mixed $key ): bool {
		forger_saw( (string) $key );
		return true;
	}
	public function offsetGet( mixed $key ): mixed {
		return new self();
	}
	public function __get( $name ) {
		return true;
	}
}
foreach ( array( 'wp_post_types', 'wp_taxonomies', 'wp_actions', 'shortcode_tags', 'wp_registered_settings' ) as $register ) {
	$GLOBALS[ $register ] = new Forge_Register();
}
add_action( 'acme_saved', '__return_true' );
$GLOBALS['wp_filter']['acme_saved']->callbacks = new Forge_Register();
( fn () => $this->registered_block_types = new Forge_Register() )->call( WP_Block_Type_Registry::get_instance() );
