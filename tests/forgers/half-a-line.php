<?php
/*
tries: Begins a line that the grader's own then completes.
acceptable: [tampered]
*/

forger_send( '{"phase":null,"nonce":["' );
