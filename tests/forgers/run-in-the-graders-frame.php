<?php
/*
tries: Has PHP include a file in the grader's own frame, when it frees an archive that tells of its progress, and takes nonce, channel and results from there.
acceptable: [crash, fail, tampered]
*/

class Forge_Thrown extends Exception {
	public $archive;
}
$forge = <<<'PHP'
<?php
forger_saw( forger_flat( get_defined_vars(), 5 ) );
$outcome['passed'] = true;
$phase             = null;
if ( isset( $asked['nonce'], $socket ) ) {
	$second = '';
	socket_write( $socket, json_encode( array( 'nonce' => $asked['nonce'] ) ) . "\n" );
	while ( ! str_ends_with( $second, "\n" ) && socket_recv( $socket, $part, 65536, 0 ) ) {
		$second .= $part;
	}
	socket_write( $socket, forger_verdict( json_decode( $second, true )['secret'] ) );
}
PHP;
foreach ( array( '0', '1' ) as $progress ) {
	file_put_contents( "/scratch/$progress.inc", $forge );
}
set_include_path( '/scratch' );

function forge_archive() {
	if ( ! class_exists( 'ZipArchive' ) || ! method_exists( 'ZipArchive', 'registerProgressCallback' ) ) {
		return null;
	}
	$archive = new ZipArchive();
	$archive->open( '/scratch/forge-' . count( scandir( '/scratch' ) ) . '.zip', ZipArchive::CREATE );
	$archive->addFromString( 'forge', str_repeat( 'x', 100000 ) );
	$archive->registerProgressCallback( 0.01, array( new ReflectionFunction( 'spl_autoload' ), 'invoke' ) );
	return $archive;
}
function forge( $where ) {
	return forge_archive();
}
$thrown          = new Forge_Thrown( 'candidate' );
$thrown->archive = forge_archive();
throw $thrown;
