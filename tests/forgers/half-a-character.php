<?php
/*
tries: Names half of a surrogate pair, for which there is no UTF-8.
acceptable: [tampered]
*/

forger_send( '{"nonce":"\ud800","verdict":"\udfff","mac":"\ud800"}' . "\n" );
