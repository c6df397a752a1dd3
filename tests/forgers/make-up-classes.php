<?php
/*
tries: Declares every class that it is asked for, with every method.
acceptable: [fail]
*/

spl_autoload_register(
	static function ( $class ) {
		$name = substr( strrchr( '\\' . $class, '\\' ), 1 );
		$head = str_contains( $class, '\\' ) ? 'namespace ' . substr( $class, 0, strrpos( $class, '\\' ) ) . '; ' : '';
		eval( $head . "class $name { public static function __callStatic( \$method, \$arguments ) { return true; } public function __call( \$method, \$arguments ) { return true; } }" );
	}
);
