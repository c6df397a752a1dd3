<?php
/*
tries: Writes an unsigned verdict to php://fd/0 to 64 and behaves as if nothing had been.
acceptable: [tampered]
*/

forger_send( forger_verdict( '' ) );
