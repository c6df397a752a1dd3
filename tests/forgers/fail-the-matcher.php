<?php
/*
tries: Lowers what regular expressions may use whenever an assertion reaches it, so that nothing unwanted is found in its answer.
acceptable: [fail]
*/

class Forge_Late {
	public function __toString(): string {
		return forge( 'text' );
	}
}

function forge( $where ) {
	ini_set( 'pcre.backtrack_limit', '0' );
	ini_set( 'pcre.recursion_limit', '0' );
	ini_set( 'pcre.jit', '0' );
	return 'text' === $where || 'function' === $where ? 'unwanted' : new Forge_Late();
}
