"""A small suite that touches what could differ between runtimes: files, database, extensions, errors."""

from __future__ import annotations

from refcompare.execution.model import Candidate, ExecutionTest


def make_test(name: str, **fields: object) -> ExecutionTest:
    return ExecutionTest(id=name, suite="docker", category="c", path="s.json", line=1, digest=name, **fields)  # type: ignore[arg-type]


TRUE = {"type": "custom_assertion", "code": "return true;"}

SUITE = (
    make_test(
        "option",
        reference_solution="update_option( 'acme', array( 'é' => 1 ) );",
        assertions=({"type": "option_value", "target": "acme", "expected": {"é": 1}},),
    ),
    make_test(
        "table",
        reference_solution=(
            "global $wpdb; require_once ABSPATH . 'wp-admin/includes/upgrade.php';"
            "$columns = 'id int NOT NULL AUTO_INCREMENT, PRIMARY KEY  (id)';"
            'dbDelta( "CREATE TABLE {$wpdb->prefix}acme ($columns)" );'
            "$wpdb->insert( $wpdb->prefix . 'acme', array( 'id' => 7 ) );"
        ),
        assertions=({"type": "query_result", "target": "SELECT id FROM wp_acme", "expected": [{"id": "7"}]},),
        teardown="$GLOBALS['wpdb']->query( 'DROP TABLE wp_acme' );",
    ),
    make_test(
        "rest",
        reference_solution=(
            "add_action( 'rest_api_init', function () { register_rest_route( 'acme/v1', '/items', array("
            "'methods' => 'GET', 'permission_callback' => '__return_true',"
            "'callback' => fn() => array( 'a' => 1 ) ) ); } );"
        ),
        assertions=(
            {
                "type": "rest_response",
                "target": "/acme/v1/items",
                "expected_status": 200,
                "expected_data": {"a": 1},
            },
        ),
    ),
    make_test(
        "files",
        test_function="function acme_files()",
        reference_solution=(
            "function acme_files() {"
            " $upload = wp_upload_bits( 'a.txt', null, 'text' );"
            " file_put_contents( WP_CONTENT_DIR . '/note.txt', 'note' );"
            " mkdir( get_theme_root() . '/acme' );"
            " file_put_contents( get_theme_root() . '/acme/style.css', '/* Theme Name: Acme */' );"
            " wp_clean_themes_cache();"
            " return array( file_get_contents( $upload['file'] ),"
            " file_get_contents( WP_CONTENT_DIR . '/note.txt' ), wp_get_theme( 'acme' )->get( 'Name' ),"
            " count( get_plugins() ), array_keys( wp_get_themes() ) ); }"
        ),
        assertions=(
            {
                "type": "returns_value",
                "target": "return array_slice( acme_files(), 0, 3 );",
                "expected": ["text", "note", "Acme"],
            },
        ),
    ),
    make_test(
        "extensions",
        reference_solution=(
            "function acme() { $image = imagecreatetruecolor( 4, 2 ); $dom = new DOMDocument();"
            " $dom->loadHTML( '<p>x</p>' );"
            " return array( imagesx( $image ), collator_create( 'de' )->compare( 'a', 'ä' ),"
            " mb_strtoupper( 'é' ), $dom->getElementsByTagName( 'p' )->length, class_exists( 'ZipArchive' ),"
            " function_exists( 'curl_init' ), class_exists( 'mysqli' ) ); }"
        ),
        assertions=(
            {
                "type": "returns_value",
                "target": "return acme();",
                "expected": [4, -1, "É", 1, True, True, True],
            },
        ),
    ),
    make_test(
        "environment",
        reference_solution=(
            "echo wp_json_encode( array( getenv(), getcwd(), sys_get_temp_dir(), ini_get_all( null, false ),"
            " get_loaded_extensions(), scandir( WP_CONTENT_DIR ), scandir( WP_PLUGIN_DIR ),"
            " scandir( get_theme_root() ), wp_get_theme()->get( 'Name' ), is_writable( ABSPATH ),"
            " is_writable( WP_PLUGIN_DIR . '/sqlite-database-integration' ), PHP_VERSION, gethostname() ) );"
        ),
        assertions=(TRUE,),
    ),
    make_test(
        "plugin",
        artifact_kind="wp_plugin_files",
        reference_files={
            "acme.php": "<?php\n/* Plugin Name: Acme */\nrequire __DIR__ . '/inc/code.php';",
            "inc/code.php": "<?php add_shortcode( 'acme', fn() => is_dir( __DIR__ ) ? 'yes' : 'no' );",
        },
        assertions=(
            {"type": "shortcode_exists", "target": "acme"},
            {
                "type": "output_equals",
                "target": "echo do_shortcode( '[acme]' );",
                "expected": "yes",
            },
        ),
    ),
)

OTHERS = (
    Candidate("exploit:empty-stub"),
    Candidate("exploit:forged", "echo '{\"success\":true}'; exit( 0 );"),
    Candidate("exploit:warning", "echo $undefined;"),
    Candidate("exploit:parse", "function ("),
    Candidate("exploit:memory", "$a = str_repeat( 'x', 600 * 1024 * 1024 );"),
    Candidate("exploit:forks", "if ( -1 === pcntl_fork() ) { throw new Exception( 'no process' ); }"),
)
"""Candidates that pass nothing; put before a test that would pass otherwise."""


def reference_of(test: ExecutionTest) -> Candidate:
    return Candidate("reference", test.reference_solution or "", test.reference_files)
