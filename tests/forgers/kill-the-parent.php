<?php
/*
tries: Kills the worker, so that somebody else may answer in its place.
acceptable: [tampered]
tests: [function, rest, options]
*/

posix_kill( posix_getppid(), SIGKILL );
forger_send( forger_verdict( '' ) );
