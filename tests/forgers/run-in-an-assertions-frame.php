<?php
/*
tries: Answers with an archive, for which PHP includes a file in the frame that lets the answer go, and changes the result there; and closes a buffer by such a file.
acceptable: [crash, fail, tampered]
*/

$forge = <<<'PHP'
<?php
forger_saw( forger_flat( get_defined_vars(), 5 ) );
$outcome['passed']  = true;
$outcome['message'] = null;
$printed            = $GLOBALS['forger_found'] ?? '';
PHP;
foreach ( array( '0.inc', '1.inc', 'forge8', 'forge9' ) as $file ) {
	file_put_contents( "/scratch/$file", $forge );
}
set_include_path( '/scratch' );

function forge( $where ) {
	if ( 'shortcode' === $where ) {
		ob_start( 'spl_autoload' );
		echo 'forge';
	}
	if ( ! class_exists( 'ZipArchive' ) || ! method_exists( 'ZipArchive', 'registerProgressCallback' ) ) {
		return null;
	}
	$archive = new ZipArchive();
	$archive->open( "/scratch/$where.zip", ZipArchive::CREATE );
	$archive->addFromString( 'forge', str_repeat( 'x', 100000 ) );
	$archive->registerProgressCallback( 0.01, array( new ReflectionFunction( 'spl_autoload' ), 'invoke' ) );
	return $archive;
}
