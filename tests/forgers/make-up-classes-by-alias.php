<?php
/*
tries: Gives one of WordPress's classes every name that it is asked for.
acceptable: [fail]
*/

spl_autoload_register( static fn ( $class ) => class_alias( 'WP_Post', $class ) );
