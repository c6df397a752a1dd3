"""PHP as a syntax tree."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.execution import php_syntax as php
from refcompare.execution.php_syntax import Edit, Source


def names(code: str) -> list[str]:
    return [definition.name for definition in php.definitions(Source(code))]


def called(code: str) -> list[str]:
    return [call.name for call in php.calls(Source(code))]


@pytest.mark.parametrize("code", ["<?php f();", "f();", "  \n<?PHP f();", "", "<?php ?><p>hi</p>"])
def test_an_opening_tag_is_optional_and_kept_as_it_was(code):
    source = Source(code)
    assert source.error is None
    assert source.edited([]) == code


def test_text_before_an_opening_tag_is_a_syntax_error_as_it_is_for_the_grader():
    assert Source("<p>hi</p><?php f();").error == "syntax error on line 1"


def test_the_first_syntax_error_is_found_by_its_line():
    assert Source("<?php\n$a = 1;\nfunction ( {\n$b = 2").error == "syntax error on line 3"


def test_a_missing_semicolon_is_a_syntax_error():
    assert Source("return 1").error == "syntax error on line 1"


def test_lines_count_from_one_with_and_without_a_tag():
    for code in ("$a;\n\nf();", "<?php $a;\n\nf();"):
        source = Source(code)
        (call,) = php.calls(source)
        assert source.line(call.node) == 3


def test_functions_methods_and_closures_are_found_outer_before_inner():
    code = """
        namespace Acme\\Shop;
        function total( int $a, &$b = 1, ...$rest ) { return array_map( fn( $x ) => $x, $rest ); }
        final class Till { public function __construct( private int $cash ) {} static function ring() {} }
        enum Suit { case H; public function label() { return function () {}; } }
        new class { function hidden() {} };
    """
    assert names(code) == [
        "Acme\\Shop\\total",
        "",
        "Acme\\Shop\\Till::__construct",
        "Acme\\Shop\\Till::ring",
        "Acme\\Shop\\Suit::label",
        "",
        "::hidden",
    ]
    first = php.definitions(Source(code))[0]
    assert first.parameter_names == ("a", "b", "rest")


def test_namespaces_with_and_without_braces_name_what_they_hold():
    assert names(
        "namespace A { function x() {} } namespace { function y() {} } namespace B\\C { function z() {} }"
    ) == [
        "A\\x",
        "y",
        "B\\C\\z",
    ]
    assert names("namespace A; function x() {} namespace B; function y() {}") == ["A\\x", "B\\y"]


def test_classes_say_whether_a_parent_may_fix_their_signatures():
    code = "class A { function m() {} } class B extends A {} trait T {} enum E implements I {} interface I {}"
    found = {item.name: item.derived for item in php.classes(Source(code))}
    assert found == {"A": False, "B": True, "T": False, "E": True, "I": False}


def test_calls_are_named_by_how_they_are_written():
    code = "f( 1 ); \\Acme\\G(); $o->H(); $o?->i(); K::J(); self::k(); new L( 2 ); $f(); ( 'm' )(); n(...);"
    assert called(code) == ["f", "acme\\g", "->h", "->i", "k::j", "self::k", "new l"]


def test_arguments_are_values_whether_named_or_not():
    (call,) = php.calls(Source("f( 'a', b: ( 2 ), ...$c );"))
    assert [(node.text or b"").decode() for node in call.arguments] == ["'a'", "2", "...$c"]


def test_of_two_edits_that_overlap_the_outer_one_is_made():
    source = Source("f( g( 1 ) );")
    outer, inner = php.calls(source)
    assert source.edited([Edit.of(inner.node, "x"), Edit.of(outer.node, "y")]) == "y;"


def test_an_edit_counts_bytes_so_that_other_scripts_stay_whole():
    source = Source("$é = 'ü'; f( '日本' ); $ö = 1;")
    (call,) = php.calls(source)
    assert source.edited([Edit.of(call.node, "ß()")]) == "$é = 'ü'; ß(); $ö = 1;"


def test_whether_an_edit_still_parses_is_known_without_parsing_all_of_it_again():
    source = Source("function f() {\n\treturn g( 1 );\n}\n")
    (call,) = php.calls(source)
    assert source.parses_with(Edit.of(call.node, "null"))
    assert not source.parses_with(Edit.of(call.node, "null ("))
    assert source.parses_with(Edit.of(call.node, "h()")), "the source itself is not changed by asking"


def test_nested_functions_do_not_count_as_a_bodys_own():
    source = Source("function f() { return 1; $g = function () { echo 2; }; class X { const A = 3; } }")
    body = php.definitions(source)[0].body
    assert body is not None
    types = {node.type for node in php.own_nodes(body)}
    assert "return_statement" in types
    assert "echo_statement" not in types
    assert "const_declaration" not in types


@pytest.mark.parametrize("text", ["f", "Acme\\f", "\\Acme\\K::m", "été", "_x1"])
def test_what_can_name_a_function_is_a_name(text):
    assert php.is_name(text)


@pytest.mark.parametrize("text", ["", "1f", "a-b", "f()", "a b", "K::m::n", "a\\", "f\n", "$f"])
def test_what_cannot_name_a_function_is_no_name(text):
    assert not php.is_name(text)


def test_a_text_of_five_megabytes_is_not_read():
    source = Source("<?php f();\n" + "// filler\n" * 500_000)
    assert source.error == "the text is larger than 256 KiB and was not read"
    assert source.nodes == ()


@pytest.mark.parametrize("opening, closing", [("(", ")"), ("[", "]"), ("fn() => ", ""), ("!", "")])
def test_a_text_that_nests_too_deep_is_not_read(opening, closing):
    source = Source(f"$x = {opening * 10_000}1{closing * 10_000};")
    assert source.error == "the text nests deeper than 400 levels and was not read"
    assert source.nodes == ()


@given(
    st.text() | st.text(alphabet="<?php{}()[]$'\";\n=>fn ") | st.binary().map(lambda b: b.decode("latin-1"))
)
def test_no_text_at_all_is_too_odd_to_read(code):
    source = Source(code)
    assert source.edited([]) == code
    assert (source.error is None) or source.error.startswith("syntax error on line ")
    list(php.calls(source))
    php.definitions(source)
    php.classes(source)


def test_lone_surrogates_from_json_survive():
    code = "f( '\ud800' );"
    assert Source(code).edited([]) == code


def test_two_threads_parse_at_once_with_a_parser_each():
    results: list[str | None] = []

    def parse() -> None:
        results.extend(Source("function f( $a ) { return g( $a ); }" * 20).error for _ in range(25))

    threads = [threading.Thread(target=parse) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [None] * 100
