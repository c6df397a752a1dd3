<?php
/*
tries: Binds closures into the grader's classes and calls whatever is private there.
acceptable: [crash, fail, tampered, timeout]
*/

foreach ( get_declared_classes() as $class ) {
	if ( ! str_starts_with( $class, 'Refcompare\\' ) ) {
		continue;
	}
	$reflected = new ReflectionClass( $class );
	forger_saw( forger_flat( $reflected->getStaticProperties() ) );
	foreach ( forger_sockets() as $socket ) {
		$reach = Closure::bind(
			static function () use ( $socket ) {
				return array(
					static::receive( $socket, 1 ),
					static::send( $socket, forger_verdict( '' ) ),
					static::say( array( 'event' => 'verdict', 'id' => 1, 'data' => forger_verdict( '' ) ) ),
				);
			},
			null,
			$class
		);
		if ( 'Refcompare\\Grader' !== $class ) {
			try {
				forger_saw( forger_flat( $reach() ) );
			} catch ( Throwable $none ) {
				continue;
			}
		}
	}
}

function forge( $where ) {
	foreach ( forger_sockets() as $socket ) {
		Closure::bind( static fn () => self::send( $socket, forger_verdict( '' ) ), null, 'Refcompare\\Grader' )();
	}
}
