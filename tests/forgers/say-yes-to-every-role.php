<?php
/*
tries: Puts roles in place that know every role, and give it every right.
acceptable: [tampered]
*/

class Forge_Roles extends WP_Roles {
	public function get_role( $role ) {
		forger_saw( $role );
		return new WP_Role( $role, array() );
	}
	public function is_role( $role ) {
		return true;
	}
}
$GLOBALS['wp_roles'] = new Forge_Roles();
