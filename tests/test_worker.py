# ruff: noqa: E501 (PHP in one line reads better than in three)
"""What the resident worker does with tests and candidates, honest and hostile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refcompare.execution import worker as worker_module
from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.execution.worker import Worker
from refcompare.resources import grader_source
from refcompare.results import ErrorKind, Phase, Record, Verdict
from refcompare.sandbox import UNPRIVILEGED_ID
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.php_settings import EXTENSIONS, extension_lines, php_settings
from refcompare.wordpress.site import Site

pytestmark = pytest.mark.wordpress

LIMITS = Limits(seconds=20, memory=96 * 1024 * 1024)
HONEST = {"type": "returns_value", "target": "return get_option( 'blogname' );", "expected": "refcompare"}


@pytest.fixture(scope="module")
def runtime(site: Site, php: Php) -> NativeRuntime:
    return NativeRuntime(site, php, installed_grader())


@pytest.fixture(scope="module")
def thread(runtime: NativeRuntime) -> Iterator[GradingThread]:
    thread = GradingThread(runtime)
    yield thread
    thread.close()


@pytest.fixture
def grade(thread: GradingThread) -> Callable[..., Record]:
    """Grade code against assertions; fields of the test by name."""

    def run(
        code: str, *assertions: dict[str, Any], limits: Limits = LIMITS, files: Any = None, **fields: Any
    ) -> Record:
        test = ExecutionTest("t", "s", "c", "p", 1, "0" * 64, assertions=assertions or (HONEST,), **fields)
        return thread.grade(test, Candidate("candidate", code, files), limits)

    return run


def code(text: str) -> dict[str, Any]:
    return {"type": "custom_assertion", "code": text}


def the_next_test_is_unharmed(grade: Callable[..., Record]) -> bool:
    record = grade(
        "update_option( 'acme', 'kept' );", code("return 'kept' === get_option( 'acme' );"), HONEST
    )
    return record.verdict is Verdict.PASS


# --- assertions ------------------------------------------------------------------------------

ACME = r"""
function acme_add( $a, $b ) { return $a + $b; }
class Acme_Thing { public function save() {} public static function load() {} }
add_shortcode( 'acme', static fn () => '<b>acme</b>' );
add_action( 'init', 'acme_add' );
add_action( 'save_post', array( new Acme_Thing(), 'save' ) );
add_action( 'wp_loaded', 'Acme_Thing::load' );
add_filter( 'the_title', static fn ( $title ) => $title );
update_option( 'acme_list', array( 'a' => 1 ) );
$GLOBALS['wpdb']->insert( 'wp_options', array( 'option_name' => 'acme_row', 'option_value' => '5' ) );
$acme_post = wp_insert_post( array( 'post_title' => 'Acme', 'post_status' => 'publish' ) );
update_post_meta( $acme_post, 'acme_colour', 'blue' );
add_action( 'rest_api_init', static function () {
	$open = array( 'permission_callback' => '__return_true' );
	register_rest_route( 'acme/v1', '/echo', $open + array( 'methods' => 'GET,POST', 'callback' =>
		static fn ( $request ) => array( 'got' => $request['word'], 'by' => $request->get_header( 'x_acme' ), 'body' => $request->get_body() ) ) );
	register_rest_route( 'acme/v1', '/number', $open + array( 'callback' => static fn () => array( 'n' => 5, 'ok' => true ) ) );
	register_rest_route( 'acme/v1', '/true', $open + array( 'callback' => static fn () => true ) );
	register_rest_route( 'acme/v1', '/wrong', $open + array( 'callback' => static fn () => new WP_Error( 'acme', 'No.', array( 'status' => 418 ) ) ) );
	register_rest_route( 'acme/v1', '/closed', array( 'permission_callback' => '__return_false', 'callback' => '__return_true' ) );
} );
"""

ROW = "SELECT option_value FROM wp_options WHERE option_name = 'acme_row'"

# An assertion; whether it holds for ACME; words of its message where it does not.
ASSERTIONS: list[tuple[dict[str, Any], bool, str]] = [
    ({"type": "function_exists", "target": "acme_add"}, True, ""),
    ({"type": "function_exists", "target": "acme_none"}, False, "'acme_none' does not exist"),
    ({"type": "class_exists", "target": "Acme_Thing"}, True, ""),
    ({"type": "class_exists", "target": "Acme_None"}, False, "does not exist"),
    ({"type": "shortcode_exists", "target": "acme"}, True, ""),
    ({"type": "shortcode_exists", "target": "none"}, False, "does not exist"),
    ({"type": "hook_registered", "target": "the_title"}, True, ""),
    ({"type": "hook_registered", "target": "acme_none"}, False, "no callbacks"),
    ({"type": "hook_registered", "target": "init", "callback": "acme_add"}, True, ""),
    ({"type": "hook_registered", "target": "init", "callback": "acme_none"}, False, "not registered"),
    ({"type": "hook_registered", "target": "save_post", "callback": "Acme_Thing::save"}, True, ""),
    ({"type": "hook_registered", "target": "save_post", "callback": "save"}, True, ""),
    ({"type": "hook_registered", "target": "wp_loaded", "callback": "Acme_Thing::load"}, True, ""),
    ({"type": "output_contains", "target": "echo do_shortcode( '[acme]' );", "expected": "<b>"}, True, ""),
    ({"type": "output_contains", "target": "echo 'acme';", "expected": "none"}, False, "does not contain"),
    ({"type": "output_contains", "target": "echo 'a'; flush(); ob_flush(); echo 'b';", "expected": "ab"}, True, ""),
    ({"type": "output_contains", "target": "ob_start(); echo 'inner';", "expected": "inner"}, True, ""),
    ({"type": "output_contains", "target": "echo 'a'; throw new Exception( 'b' );", "expected": "a"}, False, "Exception: b"),
    ({"type": "output_not_contains", "target": "echo 'acme';", "expected": "none"}, True, ""),
    ({"type": "output_not_contains", "target": "echo 'acme';", "expected": "acm"}, False, "must not"),
    ({"type": "output_not_contains", "target": "echo 'acm'; ob_clean();", "expected": "acm"}, False, "output buffer"),
    ({"type": "output_not_contains", "target": "echo 'acm'; ob_end_clean(); ob_start();", "expected": "x"}, False, "buffer"),
    ({"type": "output_equals", "target": "echo \" acme\\n\";", "expected": "acme"}, True, ""),
    ({"type": "output_equals", "target": "echo 'acme!';", "expected": "acme"}, False, "differs"),
    ({"type": "output_matches", "target": "echo 'acme/notes';", "expected": "^acme/n"}, True, ""),
    ({"type": "output_matches", "target": "echo 'ACME';", "expected": "/acme/i"}, True, ""),
    ({"type": "output_matches", "target": "echo 'acme~';", "expected": "e~$"}, True, ""),
    ({"type": "output_matches", "target": "echo 'acme';", "expected": "notes"}, False, "does not match"),
    ({"type": "output_matches", "target": "echo 'acme';", "expected": "(("}, False, "could not be matched"),
    ({"type": "returns_value", "target": "return acme_add( 2, 3 );", "expected": 5}, True, ""),
    ({"type": "returns_value", "target": "<?php return acme_add( 2, 3 );", "expected": 5}, True, ""),
    ({"type": "returns_value", "target": "return acme_add( 2, 3 );", "expected": "5"}, False, "differs"),
    ({"type": "returns_value", "target": "return array( 'a' => 1 );", "expected": {"a": 1}}, True, ""),
    ({"type": "returns_value", "target": "return acme_add();", "expected": 5}, False, "ArgumentCountError"),
    ({"type": "query_result", "target": ROW, "expected": [{"option_value": "5"}]}, True, ""),
    ({"type": "query_result", "target": ROW, "expected": [{"option_value": 5}]}, True, ""),
    ({"type": "query_result", "target": ROW, "expected": [{"option_value": "6"}]}, False, "another result"),
    ({"type": "query_result", "target": ROW, "expected": []}, False, "another result"),
    ({"type": "option_value", "target": "acme_list", "expected": {"a": 1}}, True, ""),
    ({"type": "option_value", "target": "acme_list", "expected": {"a": "1"}}, False, "differs"),
    ({"type": "option_value", "target": "acme_none", "expected": False}, True, ""),
    ({"type": "post_meta_value", "post_id": 4, "meta_key": "acme_colour", "expected": "red"}, False, "differs"),
    ({"type": "custom_assertion", "code": "return 5 === acme_add( 2, 3 );"}, True, ""),
    ({"type": "custom_assertion", "target": "return true;"}, True, ""),
    ({"type": "custom_assertion", "code": "return 0;"}, False, "the assertion returned 0"),
    ({"type": "custom_assertion", "code": "acme_add( 2, 3 );"}, False, "the assertion returned null"),
    ({"type": "custom_assertion", "code": "this is no PHP"}, False, "ParseError"),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_status": 200}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_status": 404}, False, "status is 200"),
    ({"type": "rest_response", "target": "/acme/v1/none", "expected_status": 404}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/closed", "expected_status": 401}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/wrong", "expected_status": 418, "body_contains": "No."}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_data": {"n": "5", "ok": True}}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_data": {"n": 5}}, False, "data differs"),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_data": {"n": 5, "ok": "yes"}}, False, "data"),
    ({"type": "rest_response", "target": "/acme/v1/true", "expected_data": {"n": 5}}, False, "data differs"),
    ({"type": "rest_response", "target": "/acme/v1/true", "expected_data": True}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_data": {"n": True, "ok": True}}, False, "data differs"),
    ({"type": "rest_response", "target": "/acme/v1/number", "expected_data": {"n": 5, "ok": 1}}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number", "body_contains": "none"}, False, "does not contain"),
    ({"type": "rest_response", "target": "/acme/v1/number", "body_not_contains": "ok"}, False, "the body contains"),
    ({"type": "rest_response", "target": "/acme/v1/number", "body_not_contains": "none"}, True, ""),
    ({"type": "rest_response", "target": "/acme/v1/number"}, False, "expects nothing"),
    (
        {
            "type": "rest_response",
            "target": "/acme/v1/echo",
            "method": "post",
            "params": {"word": "w"},
            "headers": {"X-Acme": "h"},
            "body": {"k": 1},
            "expected_data": {"got": "w", "by": "h", "body": '{"k":1}'},
        },
        True,
        "",
    ),
    ({"type": "none_such"}, False, "unknown assertion type 'none_such'"),
]  # fmt: skip


def test_every_type_of_assertion_holds_and_does_not_hold(grade: Callable[..., Record]) -> None:
    record = grade(ACME, *(assertion for assertion, _, _ in ASSERTIONS))
    assert (record.phase, record.message) == (None, None)
    for (assertion, holds, words), result in zip(ASSERTIONS, record.assertions, strict=True):
        assert result.passed is holds, (assertion, result)
        assert words in (result.message or ""), (assertion, result)


def test_post_meta_is_found_by_the_id_of_its_post(grade: Callable[..., Record]) -> None:
    setup = "wp_insert_post( array( 'import_id' => 4711, 'post_title' => 'x' ) );"
    found = {"type": "post_meta_value", "post_id": 4711, "meta_key": "acme", "expected": "blue"}
    assert grade("update_post_meta( 4711, 'acme', 'blue' );", found, setup=setup).verdict is Verdict.PASS
    assert grade("update_post_meta( 4711, 'acme', 'red' );", found, setup=setup).verdict is Verdict.FAIL


def test_what_was_expected_and_seen_is_told_short_and_in_words(grade: Callable[..., Record]) -> None:
    target = "return array( 'list' => array( 1, null, 1.5, true ), 'object' => new ArrayObject(), 'long' => str_repeat( 'x', 9999 ) );"
    record = grade("", {"type": "returns_value", "target": target, "expected": None})
    told = record.assertions[0]
    assert told.expected == "null"
    assert told.actual is not None and len(told.actual) < 700
    assert told.actual.startswith(
        "['list' => [1, null, 1.5, true], 'object' => object(ArrayObject), 'long' => 'xxx"
    )


def test_an_assertion_weighs_what_it_is_given(grade: Callable[..., Record]) -> None:
    record = grade("", {**code("return true;"), "weight": 3}, {**code("return false;"), "weight": 1})
    assert (record.verdict, record.score) == (Verdict.FAIL, 0.75)


def test_the_entry_point_is_checked_and_not_scored(grade: Callable[..., Record]) -> None:
    fields = {"test_function": "function acme_go( int $n ): int"}
    record = grade("", HONEST, **fields)
    assert record.verdict is Verdict.PASS
    assert record.first_failure is not None and record.first_failure.message == "'acme_go' does not exist"
    assert grade("function acme_go( $n ) {}", HONEST, **fields).first_failure is None


# --- patterns --------------------------------------------------------------------------------


def patterns(kind: str, *items: Any) -> dict[str, Any]:
    return {"static_checks": {f"{kind}_patterns": list(items)}}


@pytest.mark.parametrize("pattern", ["eval\\s*\\(", "/EVAL/i", "~eval~", "eval"])
def test_a_forbidden_pattern_of_severity_error_fails_what_passed(
    grade: Callable[..., Record], pattern: str
) -> None:
    item = {"pattern": pattern, "description": "No eval.", "severity": "error"}
    record = grade("eval( '1;' );", HONEST, **patterns("forbidden", item))
    assert (record.verdict, record.score, record.forbidden) == (Verdict.FAIL, 1.0, ("No eval.",))
    assert grade("$x = 1;", HONEST, **patterns("forbidden", item)).verdict is Verdict.PASS


def test_a_forbidden_pattern_of_lower_severity_is_only_a_remark(grade: Callable[..., Record]) -> None:
    item = {"pattern": "eval", "severity": "warning"}
    assert grade("eval( '1;' );", HONEST, **patterns("forbidden", item)).verdict is Verdict.PASS


def test_a_required_pattern_that_is_missing_is_only_told(grade: Callable[..., Record]) -> None:
    record = grade("", HONEST, **patterns("required", "wp_kses", "/esc_html/"))
    assert (record.verdict, record.missing) == (Verdict.PASS, ("wp_kses", "/esc_html/"))


def test_patterns_are_matched_against_every_file_of_a_plugin(grade: Callable[..., Record]) -> None:
    files = {"main.php": "<?php /* Plugin Name: A */", "inc/b.php": "<?php // eval"}
    assert grade("", HONEST, files=files, **patterns("forbidden", "eval")).verdict is Verdict.FAIL


def test_lowered_limits_of_the_matcher_hide_nothing(grade: Callable[..., Record]) -> None:
    hiding = (
        "ini_set( 'pcre.backtrack_limit', '1' ); ini_set( 'pcre.jit', '0' );"
        + "x();" * 0
        + "/*"
        + "a" * 5000
        + "eval*/"
    )
    record = grade(
        hiding,
        HONEST,
        code("return ! preg_match( '/(a+)+b/', str_repeat( 'a', 20 ) . 'b' );"),
        **patterns("forbidden", "a+e[v]al"),
    )
    assert record.forbidden == ("a+e[v]al",)
    assert record.assertions[1].passed is False


# --- plugins ---------------------------------------------------------------------------------

MAIN = "<?php\n/* Plugin Name: Acme */\n"


def test_a_plugin_is_installed_and_included_before_setup(grade: Callable[..., Record]) -> None:
    files = {
        "acme.php": MAIN + "require __DIR__ . '/inc/helper.php'; $GLOBALS['order'] = 'plugin';",
        "inc/helper.php": "<?php function acme_where() { return plugin_basename( __FILE__ ); }",
        "assets/style.css": "b{}",
    }
    record = grade(
        "",
        code("return 'plugin, setup' === $GLOBALS['order'];"),
        code("return 1 === preg_match( '~^wp-bench-candidate-[0-9a-f]{8}/inc/helper.php$~', acme_where() );"),
        code("return is_readable( WP_PLUGIN_DIR . '/' . dirname( acme_where(), 2 ) . '/assets/style.css' );"),
        code(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; return ! is_plugin_active( dirname( acme_where(), 2 ) . '/acme.php' );"
        ),
        files=files,
        setup="$GLOBALS['order'] .= ', setup';",
    )
    assert record.verdict is Verdict.PASS, record


REFUSED = [
    ({"a.php": "<?php"}, "exactly one top-level PHP file with a Plugin Name header, found 0"),
    ({"a.php": MAIN, "b.php": MAIN}, "found 2"),
    ({"inc/a.php": MAIN}, "found 0"),
    ({"a.txt": MAIN}, "found 0"),
    ({"a.php": MAIN, "../b.php": ""}, "unsafe plugin file path '../b.php'"),
    ({"a.php": MAIN, "x/../../b.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "/etc/b.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "./b.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "b c.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "b.php\n": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "phar://b.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "b\\c.php": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, "": ""}, "unsafe plugin file path"),
    ({"a.php": MAIN, **{f"{n}.txt": "" for n in range(20)}}, "at most 20 files"),
    ({"a.php": MAIN, "b.txt": "x" * (256 * 1024 + 1)}, "too large at 'b.txt'"),
    ({"a.php": MAIN, **{f"{n}.txt": "x" * (256 * 1024 - 99) for n in range(5)}}, "too large"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "words"), REFUSED)
def test_what_is_no_plugin_or_breaks_a_limit_is_refused(
    grade: Callable[..., Record], files: dict[str, str], words: str
) -> None:
    record = grade("", HONEST, files=files)
    assert (record.verdict, record.phase, record.assertions) == (Verdict.FAIL, Phase.PLUGIN, ())
    assert record.message is not None and words in record.message


def test_a_plugin_at_the_limits_is_taken(grade: Callable[..., Record]) -> None:
    files = {"a.php": MAIN, **{f"{n}.txt": "x" * 50_000 for n in range(18)}, "big.txt": "x" * (100 * 1024)}
    assert grade("", HONEST, files=files).verdict is Verdict.PASS


# --- the order of phases, and what aborts them -----------------------------------------------


def test_setup_runs_before_the_candidate_and_assertions_in_their_order_after_it(
    grade: Callable[..., Record],
) -> None:
    record = grade(
        "$GLOBALS['order'][] = 'candidate';",
        code("$GLOBALS['order'][] = 'one'; return true;"),
        code(
            "$GLOBALS['order'][] = 'two'; return 'setup candidate one two' === implode( ' ', $GLOBALS['order'] );"
        ),
        setup="$GLOBALS['order'] = array( 'setup' );",
    )
    assert record.verdict is Verdict.PASS, record


def test_every_candidate_starts_from_the_same_site(grade: Callable[..., Record]) -> None:
    changes = "update_option( 'blogname', 'changed' ); wp_delete_post( 1, true ); function acme_once() {} define( 'ACME', 1 ); file_put_contents( WP_CONTENT_DIR . '/acme', 'x' ); switch_theme( 'none' );"
    unchanged = "return 'refcompare' === get_option( 'blogname' ) && get_post( 1 ) && ! function_exists( 'acme_once' ) && ! defined( 'ACME' ) && ! file_exists( WP_CONTENT_DIR . '/acme' );"
    assert grade(changes, code("return 'changed' === get_option( 'blogname' );")).verdict is Verdict.PASS
    assert grade("", code(unchanged)).verdict is Verdict.PASS


def test_chance_is_another_for_every_candidate(grade: Callable[..., Record]) -> None:
    assert (
        grade("echo mt_rand(), wp_generate_password();").output
        != grade("echo mt_rand(), wp_generate_password();").output
    )


ABORTING = [
    "echo $undefined;",
    "echo @$undefined;",
    "$a = array(); echo $a['none'];",
    "@file_get_contents( '/none' );",
    "trigger_error( 'so', E_USER_DEPRECATED );",
    "error_reporting( 0 ); echo $undefined;",
    "wp_enqueue_script( 'acme', '/acme.js' ); _doing_it_wrong( 'acme', 'so', '1.0' );",
    "throw new RuntimeException( 'so' );",
    "acme_none();",
    "this is no PHP",
]  # fmt: skip


@pytest.mark.parametrize("abort", ABORTING)
def test_a_notice_in_any_phase_aborts_it_silenced_or_not(grade: Callable[..., Record], abort: str) -> None:
    in_setup = grade("", HONEST, setup=abort)
    assert (in_setup.verdict, in_setup.phase) == (Verdict.FAIL, Phase.SETUP)
    in_candidate = grade(abort, HONEST)
    assert (in_candidate.verdict, in_candidate.phase) == (Verdict.FAIL, Phase.CANDIDATE)
    assert in_candidate.message and in_candidate.assertions == ()
    in_assertion = grade("", code(abort + " return true;"), HONEST)
    assert (in_assertion.verdict, in_assertion.phase, in_assertion.score) == (Verdict.FAIL, None, 0.5)
    in_plugin = grade("", HONEST, files={"a.php": MAIN + abort})
    assert (in_plugin.verdict, in_plugin.phase) == (Verdict.FAIL, Phase.PLUGIN)


def test_an_error_handler_of_the_candidate_does_not_outlive_its_turn(grade: Callable[..., Record]) -> None:
    swallow = "set_error_handler( static fn () => true );"
    assert grade(swallow, code("echo $undefined; return true;")).verdict is Verdict.FAIL
    assert grade("", HONEST, files={"a.php": MAIN + swallow}, setup="echo $undefined;").phase is Phase.SETUP
    hooked = f"add_action( 'acme', static function () {{ {swallow} }} );"
    later = (code("do_action( 'acme' ); return true;"), code("echo $undefined; return true;"))
    assert [item.passed for item in grade(hooked, *later).assertions] == [True, False]


TEARDOWNS = ["throw new Exception( 'so' );", "acme_none();", "exit( 1 );", "no PHP", "posix_kill( getmypid(), 9 );", "wp_die();", "echo $undefined;"]  # fmt: skip


@pytest.mark.parametrize("teardown", TEARDOWNS)
def test_nothing_that_happens_in_the_teardown_touches_the_verdict(
    grade: Callable[..., Record], teardown: str
) -> None:
    assert grade("", HONEST, teardown=teardown).verdict is Verdict.PASS
    assert grade("", code("return false;"), teardown=teardown).verdict is Verdict.FAIL


def test_a_teardown_runs_even_where_the_candidate_failed(grade: Callable[..., Record]) -> None:
    told = "file_put_contents( 'php://stderr', 'torn down' );"
    assert "torn down" in grade("", HONEST, teardown=told).output
    assert "torn down" in grade("acme_none();", HONEST, teardown=told).output


def test_a_teardown_without_end_costs_time_and_not_the_verdict(grade: Callable[..., Record]) -> None:
    record = grade("", HONEST, teardown="while ( true );", limits=replace(LIMITS, seconds=1))
    assert record.verdict is Verdict.PASS
    assert the_next_test_is_unharmed(grade)


def test_output_is_kept_and_does_not_disturb(grade: Callable[..., Record]) -> None:
    record = grade(
        'echo \'{"event":"done"}\', "\\n"; print \'x\'; ?> html <?php', HONEST, setup="echo 'from setup ';"
    )
    assert record.verdict is Verdict.PASS
    assert record.output == 'from setup {"event":"done"}\nx html '


def test_what_is_said_through_wp_cli_is_kept_too(grade: Callable[..., Record]) -> None:
    record = grade(
        "WP_CLI::log( 'log' ); WP_CLI::success( 'so' ); WP_CLI::warning( 'but' ); cli\\line( 'line' );"
    )
    assert record.verdict is Verdict.PASS, record
    assert record.output == "log\nSuccess: so\nWarning: but\nline\n"


def test_an_honest_redirect_is_told_on_standard_error_and_goes_on(grade: Callable[..., Record]) -> None:
    redirect = "function acme_go() { return wp_redirect( home_url( '/there' ) ); } fwrite( STDERR, 'said' );"
    went = code(
        "$to = null; add_filter( 'wp_redirect', function ( $url ) use ( &$to ) { $to = $url; return false; } ); acme_go(); return home_url( '/there' ) === $to;"
    )
    record = grade(redirect, went, code("return is_resource( STDERR ) && 3 === fwrite( STDERR, 'too' );"))
    assert record.verdict is Verdict.PASS, record


def test_output_that_is_no_text_is_made_text(grade: Callable[..., Record]) -> None:
    assert grade('echo "\\xff\\x00ok";').output == "?\x00ok"


def test_only_the_first_bytes_of_output_are_kept(grade: Callable[..., Record]) -> None:
    record = grade("echo str_repeat( 'x', 5000 );", limits=replace(LIMITS, output=1000))
    assert record.verdict is Verdict.PASS
    assert record.output == "x" * 1000


# --- hostile candidates ----------------------------------------------------------------------

MIB = 1024 * 1024
HOSTILE: list[tuple[str, Limits, tuple[str, ...]]] = [
    # code; limits; how it may end
    ("while ( true );", replace(LIMITS, seconds=1), ("timeout",)),
    ("while ( true ) { usleep( 1000 ); }", replace(LIMITS, seconds=1), ("timeout",)),
    ("sleep( 100 );", replace(LIMITS, seconds=1), ("timeout",)),
    ("posix_kill( getmypid(), SIGSTOP );", replace(LIMITS, seconds=1), ("timeout",)),
    ("exit;", LIMITS, ("tampered",)),
    ("exit( 255 );", LIMITS, ("tampered",)),
    ("die( 'so' );", LIMITS, ("tampered",)),
    ("WP_CLI::halt( 0 );", LIMITS, ("tampered",)),
    ("WP_CLI::error( 'so' );", LIMITS, ("tampered",)),
    ("$a = str_repeat( 'x', 1 << 30 );", LIMITS, ("out_of_memory",)),
    ("$a = array(); while ( true ) { $a[] = str_repeat( 'x', 100000 ); }", LIMITS, ("out_of_memory",)),
    ("ini_set( 'memory_limit', '-1' ); $a = array(); while ( true ) { $a[] = str_repeat( 'x', 1 << 24 ); }", replace(LIMITS, memory=32 * MIB), ("out_of_memory",)),
    ("function f() { return f(); } f();", LIMITS, ("out_of_memory", "crash")),
    ("function f( $a ) { return array_map( 'f', array( $a ) ); } f( 1 );", LIMITS, ("out_of_memory", "crash", "fail")),
    ("class A { function __toString(): string { return \"$this\"; } } echo new A();", LIMITS, ("out_of_memory", "crash", "fail")),
    ("posix_kill( getmypid(), SIGSEGV );", LIMITS, ("crash",)),
    ("posix_kill( getmypid(), SIGKILL );", LIMITS, ("crash",)),
    ("eval( 'function f() {} function f() {}' );", LIMITS, ("crash",)),
    ("set_time_limit( 1 ); while ( true );", LIMITS, ("crash",)),
    ("for ( $i = 0; $i < 1000; $i++ ) { pcntl_fork(); }", LIMITS, ("fail",)),
    ("while ( true ) { popen( 'cat', 'r' ); }", LIMITS, ("fail",)),
    ("`:(){ :|:& };:`; exec( 'yes' );", LIMITS, ("fail",)),
    ("file_put_contents( '/tmp/big', '' ); $f = fopen( '/tmp/big', 'a' ); while ( true ) { fwrite( $f, str_repeat( 'x', 1 << 20 ) ); }", LIMITS, ("crash", "fail")),
    ("$f = fopen( 'php://stderr', 'w' ); for ( $i = 0; $i < 100; $i++ ) { fwrite( $f, str_repeat( 'x', 1 << 20 ) ); }", LIMITS, ("crash", "fail")),
    ("throw new class( 'so' ) extends Exception { public function __construct( $m ) { $this->message = $this; } };", LIMITS, ("fail",)),
]  # fmt: skip


@pytest.mark.parametrize(("hostile", "limits", "outcomes"), HOSTILE)
def test_a_hostile_candidate_gets_its_name_and_the_next_test_is_unharmed(
    grade: Callable[..., Record], hostile: str, limits: Limits, outcomes: tuple[str, ...]
) -> None:
    record = grade(hostile, HONEST, limits=limits)
    assert str(record.error_kind or record.verdict) in outcomes, record
    assert record.message
    hook = f"add_action( 'acme', static function () {{ {hostile} }} );"
    if "function f" not in hostile and "class A" not in hostile:
        record = grade(hook, code("do_action( 'acme' ); return false;"), HONEST, limits=limits)
        assert str(record.error_kind or record.verdict) in outcomes, record
    assert the_next_test_is_unharmed(grade)


def test_a_hundred_megabytes_of_output_are_no_trouble(grade: Callable[..., Record]) -> None:
    record = grade(
        "for ( $i = 0; $i < 100; $i++ ) { echo str_repeat( 'x', 1 << 20 ); }",
        limits=replace(LIMITS, output=100),
    )
    assert (record.verdict, record.output) == (Verdict.PASS, "x" * 100)
    assert the_next_test_is_unharmed(grade)


def test_a_candidate_that_deletes_files_harms_nobody(grade: Callable[..., Record]) -> None:
    destroy = """
    function destroy( $path ) {
        foreach ( is_dir( $path ) && ! is_link( $path ) ? scandir( $path ) : array() as $name ) {
            if ( '.' !== $name && '..' !== $name ) { destroy( "$path/$name" ); }
        }
        try { is_dir( $path ) ? rmdir( $path ) : unlink( $path ); } catch ( Throwable $denied ) { return; }
    }
    foreach ( array( '/site/wp-content', '/scratch', '/tmp', '/grader', '/snapshot.sqlite', '/dev' ) as $path ) { destroy( $path ); }
    $GLOBALS['wpdb']->query( 'DROP TABLE wp_options' );
    """
    assert grade(destroy, code("return 1;")).verdict is Verdict.PASS
    assert the_next_test_is_unharmed(grade)


def test_no_signal_of_a_candidate_reaches_the_worker(
    grade: Callable[..., Record], thread: GradingThread
) -> None:
    assert the_next_test_is_unharmed(grade)
    before = thread.process_id()
    signals = "array_diff( range( 1, 64 ), array( SIGPROF ) )"
    kill = f"foreach ( {signals} as $signal ) {{ posix_kill( posix_getppid(), $signal ); }} usleep( 200000 );"
    assert grade(kill).verdict is Verdict.PASS
    assert thread.process_id() == before


def test_a_worker_that_a_candidate_ends_is_replaced_and_costs_this_candidate_alone(
    grade: Callable[..., Record],
) -> None:
    """By the one signal that PHP itself listens to: it says that a time limit is over."""
    record = grade("posix_kill( posix_getppid(), SIGPROF ); sleep( 1 );")
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.TAMPERED)
    assert the_next_test_is_unharmed(grade)


def test_a_worker_that_dies_by_itself_costs_nobody_anything(
    grade: Callable[..., Record], thread: GradingThread
) -> None:
    assert the_next_test_is_unharmed(grade)
    assert thread._worker is not None
    thread._worker._process.kill()
    assert the_next_test_is_unharmed(grade)


def php_of(thread: GradingThread) -> int:
    """The host's id of the PHP process that is a worker: what the sandbox's processes lead to."""
    process = thread.process_id()
    while children := Path(f"/proc/{process}/task/{process}/children").read_text().split():
        process = int(children[0])
    return process


def test_a_worker_that_hangs_is_replaced_and_its_candidate_graded_anew(
    grade: Callable[..., Record], thread: GradingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_GRACE_SECONDS", 1.0)
    assert the_next_test_is_unharmed(grade)
    os.kill(php_of(thread), signal.SIGSTOP)
    assert grade("", limits=replace(LIMITS, seconds=1)).verdict is Verdict.PASS


def test_what_kills_a_worker_twice_from_outside_is_not_held_against_the_candidate(
    grade: Callable[..., Record], thread: GradingThread
) -> None:
    assert the_next_test_is_unharmed(grade)
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.1):
            with contextlib.suppress(OSError, AttributeError, AssertionError):
                os.kill(thread._worker.process_id, signal.SIGKILL)  # type: ignore[union-attr]

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        record = grade("sleep( 3 );")
    finally:
        done.set()
        killer.join()
    assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INFRASTRUCTURE)
    assert the_next_test_is_unharmed(grade)


def test_an_assertion_is_not_run_where_nobody_waits_for_its_result(runtime: NativeRuntime) -> None:
    process = runtime.start()
    assert process.stdin is not None and process.stdout is not None
    limits = {"seconds": 20, "memory": LIMITS.memory, "output": 1000}
    request = {"id": 1, "nonce": "n", "setup": "", "code": "", "files": None, "limits": limits}
    try:
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["event"] == "candidate"
        process.stdin.close()  # and refcompare is gone
        done = json.loads(process.stdout.readline())
        assert (done["event"], done["signal"]) == ("done", signal.SIGKILL)
        assert process.wait(timeout=10) == 0
    finally:
        runtime.stop(process)


def test_a_worker_that_could_not_be_cleaned_is_replaced(
    grade: Callable[..., Record], thread: GradingThread
) -> None:
    before = thread._worker
    assert (
        grade("for ( $i = 0; $i < 25000; $i++ ) { touch( '/tmp/' . $i ); }", code("return 1;")).verdict
        is Verdict.PASS
    )
    assert the_next_test_is_unharmed(grade)
    assert thread._worker is not before


def test_a_large_test_reaches_the_child_whole(grade: Callable[..., Record]) -> None:
    text = "x" * (3 * MIB)
    assert (
        grade(
            f"function f() {{ return '{text}'; }}",
            {"type": "returns_value", "target": "return f();", "expected": text},
        ).verdict
        is Verdict.PASS
    )


def test_what_is_too_large_for_a_worker_is_invalid_and_harms_nobody(
    grade: Callable[..., Record], thread: GradingThread
) -> None:
    worker = thread._worker
    for record in (grade(f"// {'x' * (17 * MIB)}"), grade("", code(f"// {'x' * (17 * MIB)}"))):
        assert (record.verdict, record.error_kind) == (Verdict.ERROR, ErrorKind.INVALID)
        assert record.message is not None and "too large" in record.message
    assert the_next_test_is_unharmed(grade)
    assert thread._worker is worker


def test_text_that_is_no_text_reaches_the_child_as_question_marks(grade: Callable[..., Record]) -> None:
    expected = {"type": "returns_value", "target": "return '\ud800';", "expected": "\udfff"}
    record = grade("echo '\ud800 é \U0001f600';", expected)
    assert record.verdict is Verdict.PASS
    assert record.output == "? é \U0001f600"


def test_an_expectation_that_php_cannot_decode_is_an_error_and_no_pass(grade: Callable[..., Record]) -> None:
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    for expected in (deep, float("nan")):
        record = grade("", {"type": "returns_value", "target": "return 1;", "expected": expected})
        assert record.verdict is Verdict.ERROR
    assert the_next_test_is_unharmed(grade)


def test_a_candidate_near_its_memory_limit_is_still_graded(grade: Callable[..., Record]) -> None:
    full = "ini_set( 'memory_limit', memory_get_usage( true ) + ( 4 << 20 ) ); $GLOBALS['a'] = str_repeat( 'x', 3 << 20 );"
    assert (
        grade(
            full,
            {"type": "returns_value", "target": "return 1;", "expected": 1, "description": "x" * (4 * MIB)},
        ).verdict
        is Verdict.PASS
    )


def test_the_candidate_may_use_all_the_memory_of_its_limit(grade: Callable[..., Record]) -> None:
    limits = replace(LIMITS, memory=256 * MIB)
    assert (
        grade("$GLOBALS['a'] = str_repeat( 'x', 170 << 20 );", HONEST, limits=limits).verdict is Verdict.PASS
    )


def resident(pid: int) -> int:
    """Resident bytes of the largest process below one."""
    largest = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
            except (OSError, ValueError):
                continue
            if int(status["PPid"]) == pid:
                below = resident(int(entry.name))
                largest = max(largest, below, int(status.get("VmRSS", "0 kB").split()[0]) * 1024)
    return largest


def test_a_worker_stays_small(runtime: NativeRuntime) -> None:
    worker = Worker(runtime)
    try:
        test = ExecutionTest("t", "s", "c", "p", 1, "0" * 64, assertions=(HONEST,))
        for size in (1000, 1000, 2 * MIB, 1000):
            assert worker.grade(test, Candidate("c", f"$x = '{'x' * size}';"), LIMITS).verdict is not None
        assert 30 * MIB < resident(os.getpid()) < 150 * MIB
    finally:
        worker.close()


# What is left of process control, each known to be harmless in a child: it has no children and
# no right to make any. A function that a newer PHP adds must be looked at before it is added here.
HARMLESS = {
    "pcntl_fork", "pcntl_waitpid", "pcntl_wait", "pcntl_wifexited", "pcntl_wifstopped", "pcntl_wifsignaled",
    "pcntl_wifcontinued", "pcntl_wexitstatus", "pcntl_wtermsig", "pcntl_wstopsig", "pcntl_get_last_error",
    "pcntl_errno", "pcntl_strerror", "pcntl_getcpu", "pcntl_setqos_class",
}  # fmt: skip


def test_no_unknown_function_of_process_control_is_left(grade: Callable[..., Record]) -> None:
    record = grade("echo implode( ' ', array_filter( get_extension_funcs( 'pcntl' ), 'function_exists' ) );")
    assert set(record.output.split()) <= HARMLESS


def test_only_known_extensions_are_loaded(grade: Callable[..., Record]) -> None:
    record = grade("echo strtolower( implode( ',', get_loaded_extensions() ) );")
    built_in = {
        "core",
        "date",
        "filter",
        "hash",
        "pcre",
        "random",
        "reflection",
        "spl",
        "standard",
        "uri",
        "lexbor",
    }
    known = (
        EXTENSIONS | built_in | {"libxml", "openssl", "pcntl", "session", "zlib", "readline", "ftp", "mhash"}
    )
    assert set(record.output.split(",")) <= known
    assert not {"ffi", "sysvshm", "shmop", "xdebug", "zend opcache"} & set(record.output.split(","))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a worker with privileges")
def test_a_worker_refuses_to_run_where_its_children_could_multiply(php: Php) -> None:
    source = grader_source() / "src" / "class-child.php"
    script = f"require '{source}'; exit( Refcompare\\Child::is_confined() ? 0 : 7 );"
    settings = php_settings(extension_lines(php), php.extension_directory)
    command = [str(php.binary), "-n", *settings, "-r", script]
    assert subprocess.run(command, check=False, timeout=20).returncode == 7
    unprivileged: dict[str, Any] = {"user": UNPRIVILEGED_ID, "group": UNPRIVILEGED_ID, "extra_groups": ()}
    assert subprocess.run(command, check=False, timeout=20, **unprivileged).returncode == 0


def test_a_worker_says_what_it_is(runtime: NativeRuntime, php: Php) -> None:
    worker = Worker(runtime)
    try:
        assert worker.versions["php"] == php.version
        assert worker.versions["wordpress"] == runtime.environment.wordpress
        assert worker.versions["database"] == "WP_SQLite_DB"
    finally:
        worker.close()


# --- what counts as behaviour (docs/verdicts.md) ----------------------------------------------


def test_a_filter_that_answers_for_the_site_is_behaviour(grade: Callable[..., Record]) -> None:
    option = {"type": "option_value", "target": "acme", "expected": "yes"}
    assert grade("add_filter( 'pre_option_acme', static fn () => 'yes' );", option).verdict is Verdict.PASS
    route = {
        "type": "rest_response",
        "target": "/acme/v1/x",
        "expected_status": 200,
        "expected_data": ["yes"],
    }
    assert (
        grade(
            "add_filter( 'rest_pre_dispatch', static fn () => new WP_REST_Response( array( 'yes' ) ) );",
            route,
        ).verdict
        is Verdict.PASS
    )


def test_a_query_is_put_to_the_database_and_not_to_a_filter(grade: Callable[..., Record]) -> None:
    rows = {"type": "query_result", "target": "SELECT 1 AS a", "expected": [{"a": "1"}]}
    lying = "add_filter( 'query', static fn ( $q ) => str_contains( $q, 'AS a' ) ? 'SELECT 2 AS a' : $q );"
    through_wpdb = code("return '2' === $GLOBALS['wpdb']->get_var( 'SELECT 1 AS a' );")
    assert grade(lying, rows, through_wpdb).verdict is Verdict.PASS
    assert grade(lying, {**rows, "expected": [{"a": "2"}]}).verdict is Verdict.FAIL


PUPPETS = {
    "$wpdb": "$GLOBALS['wpdb'] = clone $GLOBALS['wpdb'];",
    "the driver behind $wpdb": "( fn () => $this->dbh = new WP_MySQL_On_SQLite( 'mysql-on-sqlite:path=:memory:;dbname=acme' ) )->call( $GLOBALS['wpdb'] );",
    "the database behind $wpdb": "( fn () => $this->pdo = new PDO( 'sqlite::memory:' ) )->call( $GLOBALS['wpdb']->get_driver()->get_connection() );",
    "the class of statements of the database": "class S extends PDOStatement {} $GLOBALS['@pdo']->setAttribute( PDO::ATTR_STATEMENT_CLASS, array( 'S' ) );",
    "$wp_object_cache": "class C extends WP_Object_Cache {} $GLOBALS['wp_object_cache'] = new C();",
    "the SQL parser behind $wpdb": "class P extends WP_MySQL_Parser { function __construct() {} } ( fn () => $this->mysql_parser = new P() )->bindTo( $GLOBALS['wpdb']->get_driver(), 'WP_MySQL_On_SQLite' )();",
    "SQL functions": "$GLOBALS['@pdo']->sqliteCreateFunction( 'acme', 'strrev', 1 );",
    "collations": "$GLOBALS['@pdo']->sqliteCreateCollation( 'acme', 'strcmp' );",
    "connectedness": "$GLOBALS['wpdb']->ready = false;",
    "wp_posts": "$GLOBALS['@pdo']->exec( 'CREATE TEMP TABLE wp_posts ( ID )' );",
    "WP_Hook": "$GLOBALS['wp_filter']['acme'] = new ArrayObject();",
    "$wp_filter": "$GLOBALS['wp_filter'] = new ArrayObject( $GLOBALS['wp_filter'] );",
    "the callbacks of the hook init": "$GLOBALS['wp_filter']['init']->callbacks[10] = new ArrayObject();",
    "the logger of queries": "$GLOBALS['wpdb']->get_driver()->get_connection()->set_query_logger( static function ( &$sql ) {} );",
    "the array $wp_post_types": "$GLOBALS['wp_post_types'] = new ArrayObject( $GLOBALS['wp_post_types'] );",
    "an array of WP_Block_Type_Registry": "( fn () => $this->registered_block_types = new ArrayObject() )->call( WP_Block_Type_Registry::get_instance() );",
    "the object of WP_Block_Patterns_Registry": "( new ReflectionProperty( 'WP_Block_Patterns_Registry', 'instance' ) )->setValue( null, new ArrayObject() );",
    "an array of $wp_roles": "$GLOBALS['wp_roles']->role_objects = new ArrayObject();",
    "replaced $wp_roles": "class R extends WP_Roles {} $GLOBALS['wp_roles'] = new R();",
}  # fmt: skip


@pytest.mark.parametrize("part", PUPPETS)
def test_a_puppet_between_assertions_and_site_is_tampering(grade: Callable[..., Record], part: str) -> None:
    by_candidate = grade(PUPPETS[part], code("return 1;"))
    assert (by_candidate.verdict, by_candidate.error_kind) == (Verdict.ERROR, ErrorKind.TAMPERED), (
        by_candidate
    )
    assert by_candidate.message is not None and part in by_candidate.message
    hooked = f"add_action( 'acme_go', static function () {{ {PUPPETS[part]} }} );"
    by_hook = grade(hooked, code("do_action( 'acme_go' ); return 1;"))
    assert (by_hook.verdict, by_hook.error_kind) == (Verdict.ERROR, ErrorKind.TAMPERED), by_hook
    by_plugin = grade("", code("return 1;"), files={"a.php": MAIN + PUPPETS[part]})
    assert by_plugin.error_kind is ErrorKind.TAMPERED, by_plugin


def test_what_a_tests_own_setup_replaces_is_its_own_affair(grade: Callable[..., Record]) -> None:
    for part in ("$wpdb", "$wp_object_cache"):
        assert grade("", code("return 1;"), setup=PUPPETS[part]).verdict is Verdict.PASS


def test_an_sql_function_of_the_driver_stays(grade: Callable[..., Record]) -> None:
    lying = "$GLOBALS['@pdo']->sqliteCreateFunction( 'md5', static fn () => 'forged' );"
    rows = {
        "type": "query_result",
        "target": "SELECT MD5( 'a' ) AS a",
        "expected": [{"a": "0cc175b9c0f1b6a831c399e269772661"}],
    }
    assert grade(lying, rows).verdict is not Verdict.PASS or grade(lying, rows).error_kind is None
    assert grade(lying, rows).assertions[0].passed


def test_temporary_tables_of_its_own_are_behaviour(grade: Callable[..., Record]) -> None:
    own = "$GLOBALS['wpdb']->query( 'CREATE TEMPORARY TABLE acme_work ( id INT )' ); $GLOBALS['wpdb']->query( 'INSERT INTO acme_work VALUES ( 5 )' );"
    rows = {"type": "query_result", "target": "SELECT id FROM acme_work", "expected": [{"id": "5"}]}
    assert grade(own, rows).verdict is Verdict.PASS


def test_an_autoloader_that_finds_a_class_counts_and_one_that_makes_up_any_does_not(
    grade: Callable[..., Record],
) -> None:
    asked = {"type": "class_exists", "target": "Acme\\Vault"}
    honest = "spl_autoload_register( static function ( $c ) { if ( 'Acme\\\\Vault' === $c ) { eval( 'namespace Acme; class Vault {}' ); } } );"
    assert grade(honest, asked).verdict is Verdict.PASS
    any_class = "spl_autoload_register( static function ( $c ) { $p = explode( '\\\\', $c ); $n = array_pop( $p ); eval( ( $p ? 'namespace ' . implode( '\\\\', $p ) . ';' : '' ) . \"class $n {}\" ); } );"
    record = grade(any_class, asked)
    assert record.verdict is Verdict.FAIL
    assert "made up a class" in (record.assertions[0].message or "")
    first_class = "spl_autoload_register( static function ( $c ) { static $seen = 0; if ( 1 === ++$seen ) { class_alias( 'ArrayObject', $c ); } } );"
    assert grade(first_class, asked).verdict is Verdict.FAIL
    alias = "spl_autoload_register( static fn ( $c ) => class_alias( 'WP_Post', $c ) );"
    assert "made up a class" in (grade(alias, asked).assertions[0].message or "")


def test_classes_are_found_by_phps_own_autoloader(grade: Callable[..., Record]) -> None:
    honest = """
        mkdir( '/tmp/classes/acme', 0755, true );
        file_put_contents( '/tmp/classes/acme/vault.php', '<?php namespace Acme; class Vault {}' );
        set_include_path( '/tmp/classes' );
        spl_autoload_register();
    """
    asked = {"type": "class_exists", "target": "Acme\\Vault"}
    assert (
        grade(honest, asked, code("return new Acme\\Vault() && ! class_exists( 'Acme\\Safe' );")).verdict
        is Verdict.PASS
    )


LISTENER = """
    class Acme_Listener {
        function __toString(): string {
            foreach ( debug_backtrace() as $frame ) {
                foreach ( isset( $frame['class'] ) ? array() : $frame['args'] ?? array() as $heard ) {
                    foreach ( (array) $heard as $text ) {
                        if ( is_string( $text ) && str_contains( $text, 'secret' ) ) {
                            return trim( $text, '~' );
                        }
                    }
                }
            }
            return '';
        }
    }
    function acme_page() { return new Acme_Listener(); }
    function acme_list() { return array( 'key' => new Acme_Listener() ); }
"""
"""Answers with objects that look, when they are asked for their text, with what they are compared."""

COMPARISONS = {
    "return str_contains( acme_page(), 'secret' );": "an open secret",
    "$page = acme_page(); return false !== \\strpos( $page, 'secret' );": "secret",
    "return 1 === preg_match( '~secret~', acme_page(), $match );": "secret",
    "return str_starts_with( needle: 'secret', haystack: /* of */ acme_page() );": "secrets",
    "return 0 === strcmp( acme_page() , 'secret', );": "secret",
    "return in_array( 'secret', acme_list() );": "secret",
    "return in_array( acme_page(), array( 'secret' ) );": "secret",
    "return array() === array_diff( array( 'secret' ), acme_list() );": "secret",
    "return array() === array_udiff( array( 'secret' ), acme_list(), 'strcmp' );": "secret",
    "return str_contains( trim( acme_list()['key'] ), ( static fn () => 'secret' )() );": "secret",
}


@pytest.mark.parametrize("assertion", COMPARISONS)
def test_an_answer_does_not_hear_what_it_is_compared_with(
    grade: Callable[..., Record], assertion: str
) -> None:
    record = grade(LISTENER, code(assertion))
    assert record.verdict is Verdict.FAIL, record
    answer = COMPARISONS[assertion]
    honest = f"""
        class Acme_Text {{ function __toString(): string {{ return '{answer}'; }} }}
        function acme_page() {{ return new Acme_Text(); }}
        function acme_list() {{ return array( 'key' => new Acme_Text() ); }}
    """
    assert grade(honest, code(assertion)).verdict is Verdict.PASS
    plain = f"function acme_page() {{ return '{answer}'; }} function acme_list() {{ return array( 'key' => '{answer}' ); }}"
    assert grade(plain, code(assertion)).verdict is Verdict.PASS


def test_printed_text_does_not_hear_what_it_is_compared_with(grade: Callable[..., Record]) -> None:
    printing = {
        "type": "output_equals",
        "target": "echo str_contains( acme_page(), 'secret' ) ? 'yes' : 'no';",
        "expected": "yes",
    }
    assert grade(LISTENER, printing).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "assertion",
    [
        "$page = acme_page(); return ! preg_match( '/<script/', $page );",
        "return ! preg_match( '~<script\\b~i', acme_page() );",
        "return ! array_filter( array( acme_page() ), static fn ( $page ) => preg_match( '/<script/', $page ) );",
        "return array() === preg_grep( '/<script/', array( acme_page() ) );",
        "return false === mb_strpos( acme_page(), 'script' );",
    ],
)
def test_the_matcher_does_not_fail_within_an_assertion(grade: Callable[..., Record], assertion: str) -> None:
    lower = "ini_set( 'pcre.backtrack_limit', '0' ); ini_set( 'pcre.jit', '0' ); mb_internal_encoding( 'UTF-16' );"
    page = f"function acme_page() {{ {lower} return '<b>Open</b><script>alert( 1 )</script>'; }}"
    assert grade(page, code(assertion)).verdict is Verdict.FAIL
    later = f"class Acme_Page {{ function __toString(): string {{ {lower} return '<script>'; }} }} function acme_page() {{ return new Acme_Page(); }}"
    assert grade(later, code(assertion)).verdict is Verdict.FAIL
    assert grade("function acme_page() { return 'Open'; }", code(assertion)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("answer", "assertion"),
    [
        ("null", "str_contains( acme_answer(), 'secret' )"),
        ("null", "! preg_match( '~secret~', acme_answer() )"),
        ("array( array( 'x' ) )", "array() === array_diff( array( 'secret' ), acme_answer() )"),
        ("array( array( 'x' ) )", "array() === array_intersect( array( 'secret' ), acme_answer() )"),
        ("array( array( 'x' ) )", "array() === preg_grep( '~secret~', acme_answer() )"),
    ],
)
def test_a_handler_of_errors_does_not_hear_what_an_answer_is_compared_with(
    grade: Callable[..., Record], answer: str, assertion: str
) -> None:
    handler = f"""
        function acme_answer() {{
            set_error_handler( static function () {{
                foreach ( array_merge( ...array_column( debug_backtrace(), 'args' ) ) as $seen ) {{
                    if ( in_array( 'secret', (array) $seen, true ) || '~secret~' === $seen ) {{
                        $GLOBALS['acme_heard'] = 'all';
                    }}
                }}
                return true;
            }} );
            return {answer};
        }}
        function acme_heard() {{ return $GLOBALS['acme_heard'] ?? 'nothing'; }}
    """
    first = {"type": "custom_assertion", "code": f"return {assertion};"}
    then = {"type": "returns_value", "target": "return acme_heard();", "expected": "nothing"}
    record = grade(handler, first, then)
    assert [item.passed for item in record.assertions] == [False, True], record


def test_what_compares_by_another_name_is_left_alone(grade: Callable[..., Record]) -> None:
    methods = """
        class Acme_Box {
            function strpos( &$text ) { $text = 'changed'; return $this; }
            static function in_array( ...$all ) { return count( $all ); }
        }
    """
    assertion = """
        $text = 'as it was';
        $same = new ArrayObject();
        $args = array( 'a needle', 'needle' );
        ( new Acme_Box() )->strpos( $text );
        return 'changed' === $text && 3 === Acme_Box::in_array( 1, 2, 3 ) && str_contains( ...$args )
            && in_array( $same, array( $same ), true ) && array( 0 ) === array_keys( array( $same ) );
    """
    assert grade(methods, code(assertion)).verdict is Verdict.PASS


def test_sql_functions_and_collations_of_the_site_cannot_be_replaced(grade: Callable[..., Record]) -> None:
    replace = """
        foreach ( array( 'regexp', 'now' ) as $name ) {
            var_dump( $GLOBALS['@pdo']->sqliteCreateFunction( $name, 'strrev' ) );
        }
        var_dump( $GLOBALS['@pdo']->sqliteCreateFunction( 'lower', 'strrev', 1 ) );
        var_dump( $GLOBALS['@pdo']->sqliteCreateCollation( 'NOCASE', static fn () => 0 ) );
    """
    rows = {"type": "query_result", "target": "SELECT LOWER('AB') AS a, 'a' = 'b' AS b", "expected": [{"a": "ab", "b": "0"}]}  # fmt: skip
    in_a_hook = f"add_filter( 'pre_option_acme', static function () {{ {replace} return 1; }} );"
    asked = {"type": "option_value", "target": "acme", "expected": 1}
    for candidate in (replace, in_a_hook):
        record = grade(candidate, asked, rows)
        assert record.output.split() == ["bool(false)"] * 4
        assert record.assertions[1].passed


def test_a_candidate_may_use_transactions_and_change_tables(grade: Callable[..., Record]) -> None:
    """Although a statement is kept under way, so that nobody replaces functions."""
    work = """
        global $wpdb;
        $wpdb->query( 'CREATE TABLE acme ( id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9) )' );
        $wpdb->query( 'START TRANSACTION' );
        $wpdb->insert( 'acme', array( 'name' => 'a' ) );
        $wpdb->query( 'ROLLBACK' );
        $wpdb->query( 'START TRANSACTION' );
        $wpdb->insert( 'acme', array( 'name' => 'b' ) );
        $wpdb->query( 'COMMIT' );
        $wpdb->query( 'ALTER TABLE acme ADD COLUMN size INT DEFAULT 3' );
        $wpdb->query( 'CREATE TABLE acme_old ( id INT )' );
        $wpdb->query( 'DROP TABLE acme_old' );
        $wpdb->query( 'OPTIMIZE TABLE acme' );
        echo $wpdb->last_error;
    """
    rows = {"type": "query_result", "target": "SELECT name, size FROM acme", "expected": [{"name": "b", "size": "3"}]}  # fmt: skip
    record = grade(work, rows)
    assert (record.verdict, record.output) == (Verdict.PASS, "")
