<?php
/*
tries: Writes a file for every class that it is asked for, and says in the frame of the question that the code names it.
acceptable: [fail]
*/

set_include_path( '/scratch' );
spl_autoload_register(
	static function ( $class ) {
		$code = "<?php class $class { public static function __callStatic( \$method, \$arguments ) { return true; } } \$code = '$class';";
		file_put_contents( '/scratch/' . strtolower( $class ) . '.inc', $code );
	}
);
spl_autoload_register();
