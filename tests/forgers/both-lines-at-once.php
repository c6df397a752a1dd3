<?php
/*
tries: Sends a claim and a verdict in one go, before the grader says a word.
acceptable: [tampered]
*/

forger_send( '{"nonce":true}' . "\n" . forger_verdict( 'secret' ) . '{"event":"done","clean":true}' . "\n" );
