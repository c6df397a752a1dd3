<?php
/**
 * Plugin Name: Acme Notes
 */

add_action(
	'init',
	function () {
		register_setting( 'acme-notes', 'acme_notes_limit', array( 'type' => 'integer' ) );
	}
);
