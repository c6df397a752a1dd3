<?php
/*
tries: Stops the worker, so that its deadline does not come.
acceptable: [tampered]
tests: [function, rest, options]
*/

posix_kill( posix_getppid(), SIGSTOP );
forger_send( '{"nonce":true}' . "\n" . forger_verdict( '' ) );
usleep( 100000 );
