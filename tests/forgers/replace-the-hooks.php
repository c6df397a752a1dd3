<?php
/*
tries: Puts objects of its own among the hooks.
acceptable: [tampered, crash, fail]
*/

class Forge_Hook implements IteratorAggregate {
	public $callbacks = array();
	public function has_filters() {
		return true;
	}
	public function has_filter() {
		return 10;
	}
	public function apply_filters( $value, $arguments ) {
		return $value;
	}
	public function do_action( $arguments ) {
	}
	public function getIterator(): Iterator {
		return new ArrayIterator( array() );
	}
}
$GLOBALS['wp_filter']['acme_answer'] = new Forge_Hook();
