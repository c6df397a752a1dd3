<?php
/*
tries: Declares and aliases classes in the grader's namespace.
acceptable: [fail]
*/

class Forge_Any extends ArrayObject {
	public static function __callStatic( $method, $arguments ) {
		forger_saw( forger_flat( $arguments ) );
		return null;
	}
}
foreach ( array( 'Throwable', 'Socket', 'Closure', 'ErrorException', 'WP_Hook', 'WP_REST_Request', 'PDO', 'UnexpectedValueException', 'Grader', 'Assertions', 'Integrity' ) as $class ) {
	try {
		class_alias( 'Forge_Any', 'Refcompare\\' . $class );
	} catch ( Throwable $taken ) {
		continue;
	}
}
