"""What the rules of good authoring object to, and what looks like it and is left alone."""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompare.config import load_config
from refcompare.errors import UsageError
from refcompare.resources import schema_directory
from refcompare.rules import ALL, Chosen, Finding, check_suites, choose
from refcompare.rules.prompts import ALIKE, similar
from refcompare.wordpress.symbols import Symbols, read_version
from tests.rule_files import GOOD, a_release
from tests.suite_files import MemoryTree

PATH = "datasets/suites/shop/execution/hooks.json"
EVAL = "datasets/suites/shop/agent/{}.yaml"


def a_test(**changed: Any) -> dict[str, Any]:
    """Give the good test with fields changed; those of runtime_checks and metadata by their own names."""
    test = copy.deepcopy(GOOD)
    for name, value in changed.items():
        if name in {"setup", "assertions", "teardown"}:
            test["runtime_checks"][name] = value
        elif name in {"source_refs", "wp_version", "release_focus", "check_ignore"}:
            test["metadata"][name] = value
        else:
            test[name] = value
    return test


def check(*tests: dict[str, Any], symbols: Symbols | None = None, **outer: Any) -> tuple[Finding, ...]:
    data = json.dumps({**outer, "tests": list(tests)}, indent=2).encode()
    return check_suites(MemoryTree({PATH: data}), symbols=symbols).findings


def messages(rule: str, *tests: dict[str, Any], **more: Any) -> list[str]:
    return [finding.message for finding in check(*tests, **more) if finding.rule == rule]


def returns(code: str, expected: Any = 1) -> dict[str, Any]:
    return {"type": "returns_value", "target": code, "expected": expected}


def custom(code: str) -> dict[str, Any]:
    return {"type": "custom_assertion", "code": code}


def output(kind: str, code: str, expected: str) -> dict[str, Any]:
    return {"type": kind, "target": code, "expected": expected}


def evals(*items: dict[str, Any], **files: str) -> tuple[Finding, ...]:
    tree = {
        EVAL.format(number): json.dumps(
            {"id": f"eval-{number}", "prompt": "Add it.", "checks": [{"changed": "a"}], **item}
        ).encode()
        for number, item in enumerate(items)
    }
    tree |= {path: text.encode() for path, text in {"docs/tests.md": "# Tests", **files}.items()}
    tree[PATH] = json.dumps({"tests": [GOOD]}).encode()
    return check_suites(MemoryTree(tree)).findings


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> Symbols:
    return a_release(tmp_path_factory.mktemp("release"))


# ------------------------------------------------------------------------------ findings


def test_a_finding_names_the_test_the_line_and_whether_it_is_mended_by_itself():
    pattern = {"required_patterns": [{"pattern": "acme_title"}]}
    tree = MemoryTree({PATH: json.dumps({"tests": [a_test(static_checks=pattern)]}, indent=2).encode()})
    (finding,) = check_suites(tree).findings
    assert (finding.owner, finding.rule, finding.fixable) == ("hooks-001", "gateway-in-patterns", True)
    line = tree.contents[PATH].decode().splitlines()[finding.line - 1]
    assert line.strip() == "{", "the line of the pattern"


def test_a_test_that_cannot_be_graded_is_told_that_alone():
    assert {
        finding.rule for finding in check(a_test(assertions=[custom("return true;"), {"type": "x"}]))
    } == {"assertion-type"}


def test_a_repository_may_have_agent_evals_alone():
    one = json.dumps({"id": "adds-it", "prompt": "Add it.", "checks": [{"changed": "a"}]}).encode()
    assert check_suites(MemoryTree({EVAL.format("adds-it"): one})).findings == ()
    (finding,) = check_suites(MemoryTree({})).findings
    assert (finding.rule, finding.severity) == ("no-suites", "error")


def test_what_was_read_is_counted_whether_it_can_be_graded_or_not():
    tree = MemoryTree({PATH: json.dumps({"tests": [GOOD, a_test(assertions=[{"type": "x"}])]}).encode()})
    assert check_suites(tree).tests == 2


# ------------------------------------------------------------------------------- prompts


def test_a_prompt_may_name_the_function_where_nothing_else_does():
    test = a_test(prompt="Write acme_title( string $title ), which gives the title with the open orders.")
    assert messages("prompt-names-gateway", test) == [
        "the prompt names 'acme_title', which test_function says already"
    ]
    assert messages("prompt-names-gateway", test | {"test_function": None}) == []


def test_a_longer_name_than_the_gateways_is_another():
    assert messages("prompt-names-gateway", a_test(prompt="The shop keeps it as acme_title_suffix.")) == []


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("Read it with get_option().", ["get_option"]),
        ("Read it with \\get_option.", ["\\get_option"]),
        ("Keep it as 'get_option' says.", []),
        ("An option holds it; whoever gets it last wins.", []),
        ("The function acme_orders() counts them.", []),
    ],
)
def test_a_name_that_the_reference_calls_is_a_hint(prompt: str, told: list[str]):
    test = a_test(prompt=f"Give the title with the number of orders. {prompt}")
    assert [
        message.split("'")[1].replace("\\\\", "\\") for message in messages("prompt-names-helper", test)
    ] == told


def test_a_name_that_the_assertions_ask_for_is_no_hint():
    test = a_test(
        prompt="Give a WP_Query for the titles.",
        reference_solution="function acme_title( $title ) { return new WP_Query( $title ); }",
    )
    assert messages("prompt-names-helper", test) == ["the prompt names 'WP_Query', which the reference calls"]
    seen = custom("return acme_title( 'a' ) instanceof WP_Query;")
    assert messages("prompt-names-helper", test, a_test()) != []
    test["runtime_checks"]["assertions"] = [seen, *GOOD["runtime_checks"]["assertions"]]
    assert messages("prompt-names-helper", test) == []


def test_an_error_that_the_assertions_test_for_is_no_hint():
    test = a_test(
        prompt="Give a WP_Error where there is none.",
        reference_solution="function acme_title( $title ) { return new WP_Error( $title ); }",
        assertions=[custom("return is_wp_error( acme_title( 'a' ) );")],
    )
    assert messages("prompt-names-helper", test) == []


def test_of_two_prompts_that_are_alike_the_later_is_told_where_the_earlier_is():
    prompt = "A shop wants the number of its open orders behind each title that it shows to anybody."
    first, second = a_test(id="a-1", prompt=prompt), a_test(id="a-2", prompt=prompt.replace("each", "every"))
    (message,) = messages("near-duplicate-prompt", first, second)
    assert "'a-1'" in message
    assert PATH in message


def test_numbers_and_names_that_are_only_counted_on_do_not_make_prompts_differ():
    prompt = "Write a function called acme_hooks_{} that gives every title of the shop in capital letters."
    found = messages("near-duplicate-prompt", *(a_test(id=f"a-{n}", prompt=prompt.format(n)) for n in "123"))
    assert len(found) == 2


def test_short_prompts_are_alike_only_where_they_are_equal():
    assert (
        messages("near-duplicate-prompt", a_test(prompt="Say hello."), a_test(id="b", prompt="Say bye."))
        == []
    )
    assert messages("near-duplicate-prompt", a_test(prompt="Say it."), a_test(id="b", prompt="say  it"))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.frozensets(st.sampled_from("abcdefghij"), min_size=1), max_size=12))
def test_what_is_alike_is_found_as_by_comparing_all_with_all(sets: list[frozenset[str]]):
    def share(one: frozenset[str], other: frozenset[str]) -> float:
        return len(one & other) / len(one | other)

    expected = {at for at, own in enumerate(sets) if any(share(own, other) >= ALIKE for other in sets[:at])}
    found = {at: (other, much) for at, other, much in similar(sets, ALIKE)}
    assert found.keys() == expected
    assert all(share(sets[at], sets[other]) == much for at, (other, much) in found.items())


def test_thousands_of_prompts_are_compared_in_seconds():
    words, chance = [f"w{number}" for number in range(2_000)], random.Random(1)
    prompts = [frozenset(chance.sample(words, 40)) for _ in range(3_000)]
    started = time.process_time()
    assert list(similar(prompts, ALIKE)) == []
    assert len(list(similar([prompts[0]] * 1_000, ALIKE))) == 999
    assert time.process_time() - started < 10


# --------------------------------------------------------------------------- assertions


@pytest.mark.parametrize(
    ("assertions", "stub"),
    [
        ([returns("return acme_title( 'a' );", "x")], "return 'x';"),
        (
            [returns("return acme_title( 'a' );", [1, {"b": None}])],
            "return array( 1, array( 'b' => null ) );",
        ),
        ([returns("return array( acme_title( 'a' ), acme_title( 'b' ) );", ["x", "x"])], "return 'x';"),
        ([custom("return 'x' === acme_title( 'a' ) && acme_title( 'b' ) === 'x';")], "return 'x';"),
        (
            [
                custom(
                    "if ( ! function_exists( 'acme_title' ) ) { return false; } return 'x' === acme_title();"
                )
            ],
            "return 'x';",
        ),
        ([custom("$t = acme_title( 'a' );\nreturn 'x' === $t;")], "return 'x';"),
        ([custom("return acme_title( 'a' );")], "return true;"),
        ([output("output_equals", "acme_title( 'a' );", "x")], "echo 'x';"),
        ([output("output_equals", "echo acme_title( 'a' );", "x")], "return 'x';"),
        (
            [
                output("output_contains", "acme_title( 'a' );", "x"),
                output("output_contains", "acme_title( 'b' );", "y"),
            ],
            "echo 'x y';",
        ),
        ([{"type": "function_exists", "target": "acme_title"}], "acme_title() {}"),
    ],
)
def test_assertions_that_one_constant_satisfies_are_told_with_it(assertions: list[dict[str, Any]], stub: str):
    (finding,) = [item for item in check(a_test(assertions=assertions)) if item.rule == "constant-answer"]
    assert finding.severity == "error"
    assert stub in finding.message


@pytest.mark.parametrize(
    "assertions",
    [
        [returns("return acme_title( 'a' );", "x"), returns("return acme_title( 'b' );", "y")],
        [returns("return acme_title( 'a' );", 1), returns("return acme_title( 'b' );", True)],
        [returns("return acme_title( 'a' ) . get_option( 'acme_orders' );", "x")],
        [returns("acme_title( 'a' );\nreturn get_option( 'acme_orders' );", "x")],
        [custom("return 'x' === acme_title( 'a' ) || true === acme_title( 'b' );")],
        [custom("return 'x' !== acme_title( 'a' );")],
        [returns("return acme_title( 'a' );", "x"), {"type": "option_value", "target": "b", "expected": 1}],
        [
            output("output_contains", "acme_title( 'a' );", "x"),
            output("output_not_contains", "acme_title();", "x"),
        ],
        [returns("return array( acme_title( 'a' ), 2 );", ["x", 3])],
        [returns("if ( get_option( 'a' ) ) { return 1; }\nreturn acme_title( 'a' );", "x")],
        [custom("return acme_title(")],
        [custom("$t = acme_title( 'a' );\nif ( $t ) { return false; }\nreturn 'x' === acme_title( 'b' );")],
        [custom("if ( ! function_exists( 'acme_b' ) ) { return false; }\nreturn 'x' === acme_title( 'b' );")],
        [custom("return function_exists( 'acme_b' ) && 'x' === acme_title( 'b' );")],
        [custom("$t = acme_title( 'a' );\n$t = strtolower( $t );\nreturn 'x' === $t;")],
        [custom("return 'x' === get_option( 'acme_orders' );")],
        [custom("$t = 'x';\nreturn $t;")],
        [returns("return array( get_option( 'acme_orders' ) => acme_title( 'a' ) );", ["x"])],
    ],
)
def test_assertions_that_no_constant_satisfies_or_may_not_are_left_alone(assertions: list[dict[str, Any]]):
    assert messages("constant-answer", a_test(assertions=assertions)) == []


def test_an_assertion_without_weight_does_not_save_a_test_from_a_constant():
    weightless = returns("return acme_title( 'b' );", "y") | {"weight": 0}
    assert messages("constant-answer", a_test(assertions=[returns("return acme_title();", "x"), weightless]))


def test_what_always_holds_is_an_error_only_where_nothing_else_is_asked():
    one = [
        item for item in check(a_test(assertions=[custom("return true;")])) if item.rule == "idle-assertion"
    ]
    assert [finding.severity for finding in one] == ["error"]
    both = check(a_test(assertions=[custom("return true;"), *GOOD["runtime_checks"]["assertions"]]))
    assert [(finding.rule, finding.severity) for finding in both] == [("idle-assertion", "warning")]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("$t = acme_title( 'a' );\ndelete_option( 'b' );\nreturn 'x' === $t;", True),
        ("$t = acme_title( 'a' );\nwp_delete_post( 5, true );\nremove_all_filters( 'b' );\nreturn $t;", True),
        ("delete_option( 'b' );\nreturn 'x' === acme_title( 'a' );", False),
        ("$t = acme_title( 'a' );\ndelete_option( 'b' );\nreturn array( $t, acme_title( 'a' ) );", False),
        ("delete_option( 'b' );", False),
        ("$t = acme_title( 'a' );\nwp_set_current_user( 0 );\nreturn 'x' === $t;", False),
        ("$s = 0;\nadd_action( 'd', function () use ( &$s ) {} );\nwp_delete_post( 5 );\nreturn $s;", False),
        ("global $s;\n$s = acme_title( 'a' );\nwp_delete_post( 5 );\nreturn $s;", False),
        ("acme_title( 'a' );\nwp_delete_post( 5 );\nreturn $GLOBALS['seen'];", False),
        ("$s = acme_title( 'a' );\nwp_delete_post( 5 );\nreturn 1 === $s->count;", False),
        ("$a = acme_title( 'a' );\n$b = &$a;\nwp_delete_post( 5 );\nreturn $a;", False),
        ("$a = array( acme_title( 'a' ) );\ndelete_option( 'b' );\nreturn 'x' === $a[0];", True),
    ],
)
def test_cleaning_up_is_told_where_nothing_is_looked_at_afterwards(code: str, told: bool):
    assert bool(messages("cleanup-in-assertion", a_test(assertions=[custom(code)]))) is told


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("acme_title", True),
        ("function\\s+acme_title", True),
        ("\\bacme_title\\b", True),
        ("acme_title\\s*\\(\\s*string", False),
        ("acme_titles", False),
    ],
)
def test_a_pattern_that_is_the_gateways_name_is_told(pattern: str, told: bool):
    static = {"required_patterns": [{"pattern": pattern}]}
    assert bool(messages("gateway-in-patterns", a_test(static_checks=static))) is told


def test_a_gateway_that_is_only_a_callbacks_name_is_used():
    test = a_test(test_function="acme_other( $a )", setup="add_filter( 'the_title', 'acme_other' );")
    assert messages("unused-gateway", test) == []
    assert messages("unused-gateway", a_test(test_function="acme_other( $a )")) == [
        "nothing calls 'acme_other', which test_function asks for"
    ]


# ------------------------------------------------------------------------------ fixtures


@pytest.mark.parametrize(
    ("setup", "told"),
    [
        ("function acme_unused() {}", ["'acme_unused'"]),
        ("function acme_self() { acme_self(); }", ["'acme_self'"]),
        ("class Acme_Unused {}", ["'Acme_Unused'"]),
        ("function acme_hook() {}\nadd_filter( 'a', 'acme_hook' );", []),
        ("$id = wp_insert_post( array() );", ["$id"]),
        ("$id = wp_insert_post( array() );\nupdate_option( 'acme_id', $id );", []),
        ("global $wpdb;\n$wpdb = 1;", []),
        ("$GLOBALS['acme'] = 1;", []),
        ("$seen = 1;\nadd_filter( 'a', function () use ( &$seen ) {} );", []),
        ("$a = 1;\nupdate_option( 'b', compact( 'a' ) );", []),
        ("function broken( {", []),
    ],
)
def test_what_setup_defines_for_nobody_is_told(setup: str, told: list[str]):
    found = messages("unused-setup", a_test(setup=setup))
    assert len(found) == len(told)
    assert all(name in message for name, message in zip(told, found, strict=True))


def test_a_function_of_setup_that_the_prompt_offers_is_used():
    test = a_test(setup="function acme_clock() {}", prompt="The shop has acme_clock(), which gives the hour.")
    assert messages("unused-setup", test) == []


@pytest.mark.parametrize(
    ("category", "told"), [("hooks", False), ("Hooks", False), ("wp_hooks", False), ("rest", True)]
)
def test_a_category_is_that_of_the_file_however_it_is_written(category: str, told: bool):
    assert bool(messages("category-of-file", a_test(category=category))) is told


# --------------------------------------------------------------------------- determinism


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("time();", "clock"),
        ("time() + 5;", "clock"),
        ("time() + HOUR_IN_SECONDS;", None),
        ("time() - 7 * DAY_IN_SECONDS;", None),
        ("( time() + 7200 );", None),
        ("gmdate( 'Y' );", "clock"),
        ("gmdate( 'Y', 0 );", None),
        ("wp_date( 'Y', null );", None),
        ("new DateTimeImmutable();", "clock"),
        ("new DateTimeImmutable( 'now' );", "clock"),
        ("new DateTimeImmutable( '2024-03-01' );", None),
        ("strtotime( 'tomorrow' );", "clock"),
        ("strtotime( '+2 days' );", None),
        ("strtotime( '+2 days', time() );", None),
        ("strtotime( '1 March 2024' );", None),
        ("current_time( 'mysql' );", "clock"),
        ("wp_remote_get( 'https://a.example/' );", "network"),
        ("file_get_contents( 'https://a.example/' );", "network"),
        ("file_get_contents( __FILE__ );", None),
        ("$request->request();", None),
        ("wp_rand();", "randomness"),
        ("uniqid();", "randomness"),
        ("wp_create_user( 'a', wp_generate_password() );", None),
        ("mt_srand( 5 );\nmt_rand();", None),
        ("mt_srand( 5 );\nrandom_int( 1, 2 );", "randomness"),
    ],
)
def test_setup_depends_on_nothing_but_the_site(code: str, rule: str | None):
    found = {finding.rule for finding in check(a_test(setup=f"update_option( 'acme_orders', 3 );\n{code}"))}
    assert found == ({rule} if rule else set())


def test_a_request_that_a_filter_answers_leaves_the_machine_alone():
    test = a_test(
        setup="add_filter( 'pre_http_request', fn() => array() );\nwp_remote_get( 'https://a.example/' );"
    )
    assert messages("network", test) == []


def test_where_an_assertion_depends_on_chance_is_said():
    test = a_test(
        assertions=[*GOOD["runtime_checks"]["assertions"], custom("$a = 1;\nreturn $a < wp_rand();")]
    )
    assert messages("randomness", test) == ["assertion 3, line 2 depends on chance: 'wp_rand()'"]


# --------------------------------------------------------------------------- the release


@pytest.mark.parametrize(
    ("ref", "fault"),
    [
        ("wp-includes/post.php", None),
        ("src/wp-includes/post.php", None),
        ("wp-includes", None),
        ("https://developer.example/", None),
        ("wp-includes/post.php:5", None),
        ("wp-includes/post.php:500", "lines"),
        ("wp-includes/post.php#get_post()", None),
        ("wp-includes/post.php#acme_saved", None),
        ("wp-includes/post.php#get_pots", "did you mean 'get_post'"),
        ("wp-includes/abilities.php#WP_Abilities::all", None),
        ("wp-includes/abilities.php#one", None),
        ("wp-includes/client/client.php#Client", None),
        ("../../etc/passwd", "no path below"),
        ("/etc/passwd", "no path below"),
        ("wp-includes/none.php", "no such file"),
        ("wp-includes/post.php : 5", "no path"),
    ],
)
def test_a_source_is_a_file_a_line_or_a_symbol_of_the_release(symbols: Symbols, ref: str, fault: str | None):
    found = messages("source-ref", a_test(source_refs=[ref]), symbols=symbols)
    assert bool(found) is (fault is not None)
    assert fault is None or fault in found[0]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        ("wp_register_ability();", "6.9", False),
        ("wp_register_ability();", "6.8.3", True),
        ("\\wp_register_ability();", "6.8", True),
        ("if ( function_exists( 'wp_register_ability' ) ) { wp_register_ability(); }", "6.8", False),
        ("WP_Abilities::all();", "6.9", True),
        ("WP_Abilities::all();", "7.0.1", False),
        ("new WP_Abilities();", "6.8", True),
        ("add_action( 'acme_saved', '__return_true' );", "7.0", True),
        ("add_action( 'acme_saved', '__return_true' );", "7.1", False),
        ("wp_never_was();", None, True),
        ("new WP_Never_Was();", None, True),
        ("acme_never_was();", None, False),
        ("function wp_own() {}\nwp_own();", None, False),
    ],
)
def test_nothing_is_newer_than_the_release_that_the_test_is_for(
    symbols: Symbols, code: str, version: str | None, told: bool
):
    more = {"wp_version": version} if version else {}
    test = a_test(setup=f"update_option( 'acme_orders', 3 );\n{code}", **more)
    assert bool(messages("newer-api", test, symbols=symbols)) is told


def test_the_release_that_a_file_is_for_holds_where_a_test_names_none(symbols: Symbols):
    test = a_test(setup="wp_register_ability();")
    (message,) = messages("newer-api", test, symbols=symbols, metadata={"wp_version": "6.8"})
    assert message == (
        "setup uses the function 'wp_register_ability', which came with 6.9, and the test is for 6.8"
    )
    assert messages("newer-api", test, symbols=symbols) == []
    assert messages("newer-api", a_test(setup="WP_Abilities::all();", release_focus="6.9"), symbols=symbols)


def test_rules_that_read_the_release_are_named_where_there_is_none():
    checked = check_suites(MemoryTree({PATH: json.dumps({"tests": [GOOD]}).encode()}))
    assert checked.unasked == (("source-ref", "release"), ("newer-api", "release"), ("leftover-state", "run"))


def test_versions_compare_as_numbers():
    assert read_version("7.0") == read_version("7.0.0") == (7,)
    assert (read_version("7.10") or ()) > (read_version("7.9.9") or ())
    assert read_version("classic") is None


def test_a_damaged_cache_of_symbols_is_made_again(tmp_path, symbols: Symbols):
    first = a_release(tmp_path)
    (kept,) = (tmp_path / "cache/symbols").iterdir()
    kept.write_text('[["function"]]')
    assert a_release(tmp_path).symbols == first.symbols == symbols.symbols
    kept.unlink()
    (tmp_path / "cache/symbols").rmdir()
    (tmp_path / "cache/symbols").write_text("in the way")
    assert a_release(tmp_path).symbols == first.symbols, "it costs the time and nothing else"


# ------------------------------------------------------------------------------- waivers


def test_a_waiver_takes_a_finding_away_and_one_without_effect_is_told():
    bad = a_test(
        setup="update_option( 'acme_orders', time() );", check_ignore={"clock": "It does not matter."}
    )
    assert check(bad) == ()
    (finding,) = check(a_test(check_ignore={"clock": "It does not matter."}))
    assert (finding.rule, finding.severity) == ("unused-waiver", "warning")


def test_a_waiver_of_a_rule_that_was_not_asked_is_not_told():
    assert check(a_test(check_ignore={"leftover-state": "The site is thrown away."})) == ()


@pytest.mark.parametrize(
    ("waiver", "message", "mend"),
    [
        ({"clok": "x"}, "there is no rule 'clok' to waive", "did you mean 'clock'?"),
        ({"json": "x"}, "the rule 'json' cannot be waived", "mend what it objects to"),
        ({"clock": " "}, "the waiver of 'clock' gives no reason", "say why the rule is wrong here"),
        (["clock"], "metadata.check_ignore is a list", "make it an object of rule names to reasons"),
    ],
)
def test_a_waiver_that_is_none_is_an_error(waiver: Any, message: str, mend: str):
    (finding,) = check(a_test(check_ignore=waiver))
    assert (finding.rule, finding.severity) == ("waiver", "error")
    assert (finding.message, finding.mend) == (message, mend)


def test_an_eval_may_leave_a_rule_aside_too():
    same = {"prompt": "Add a test for the title of the shop."}
    (finding,) = evals(same, same)
    assert finding.rule == "near-duplicate-prompt"
    assert evals(same, same | {"check-ignore": {"near-duplicate-prompt": "Another model."}}) == ()
    (unused,) = evals(same | {"check-ignore": {"clock": "There is none."}})
    assert unused.rule == "unused-waiver"
    assert not unused.fixable


# ---------------------------------------------------------------------------- agent evals


def test_what_an_eval_puts_into_the_workspace_or_makes_there_is_there():
    check = [{"read": "docs/new.md"}]
    assert [finding.rule for finding in evals({"checks": check})] == ["read-of-nothing"]
    assert evals({"checks": check, "workspace": {"files": {"docs/new.md": "x"}}}) == ()
    assert evals({"checks": check, "workspace": {"setup": ["touch docs/new.md"]}}) == ()


def test_a_file_that_is_hidden_cannot_be_read():
    hidden = {"checks": [{"read": "docs/tests.md"}], "workspace": {"hide": "docs"}}
    (finding,) = evals(hidden)
    assert finding.message == "workspace.hide hides 'docs/tests.md', whose reading is measured"


def test_a_skill_is_named_only_where_it_is_named_as_one():
    skill = {".agents/skills/tests/SKILL.md": "x"}
    checks = {"checks": [{"skill-used": "tests"}]}
    assert evals(checks | {"prompt": "Add tests for the title."}, **skill) == ()
    (finding,) = evals(checks | {"prompt": "Add one with the tests skill."}, **skill)
    assert finding.rule == "prompt-names-guidance"


# ------------------------------------------------------------------------------- choosing


def test_rules_are_chosen_by_name_and_an_unknown_one_is_told_with_what_was_meant():
    test = a_test(setup="update_option( 'acme_orders', time() + wp_rand() );")
    tree = MemoryTree({PATH: json.dumps({"tests": [test]}).encode()})
    assert [item.rule for item in check_suites(tree, chosen=choose(["clock"], [])).findings] == ["clock"]
    assert [item.rule for item in check_suites(tree, chosen=choose([], ["clock"])).findings] == ["randomness"]
    with pytest.raises(UsageError, match=r"There is no rule 'clok'; did you mean 'clock'\?"):
        choose([], ["clok"])
    with pytest.raises(UsageError, match="'json' cannot be ignored"):
        choose([], ["json"])


def test_the_configuration_names_the_rules_that_can_be_ignored_and_no_others():
    schema = json.loads((schema_directory() / "config.schema.json").read_bytes())
    listed = schema["properties"]["check"]["properties"]["ignore"]["items"]["enum"]
    assert listed == [rule.name for rule in ALL if rule.waivable]
    assert load_config(b"check: { ignore: [clock] }", "refcompare.yml").check.ignore == {"clock"}
    with pytest.raises(
        UsageError, match=r"refcompare.yml:1: check.ignore\[0\] is 'clok'; did you mean 'clock'\?"
    ):
        load_config(b"check: { ignore: [clok] }", "refcompare.yml")


# --------------------------------------------------------------------------------- hostile


php = st.text(alphabet="<?php $a=()[]{}'\"\\;,>-!&|fnretu \n\x00é😀", max_size=80)


@settings(deadline=None, max_examples=50)
@given(php, php, php, st.text(max_size=40))
def test_no_text_makes_a_rule_raise(one: str, two: str, three: str, word: str):
    test = a_test(
        prompt=f"{word}.",
        test_function=word or None,
        setup=one,
        assertions=[custom(f"return {two};"), returns(f"{three} ;")],
        teardown=two,
        exploit_solutions=[three],
        source_refs=[word, one],
        check_ignore={word: two},
    )
    check_suites(MemoryTree({PATH: json.dumps({"tests": [test]}).encode()}), chosen=Chosen())
