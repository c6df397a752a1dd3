"""What a site holds after a test, read from hostile output and compared with a fresh one."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare.execution.grading import GradingThread
from refcompare.execution.model import Candidate, ExecutionTest, Limits
from refcompare.rules.state import Unreadable, _observed, differences, read_rows
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.native import NativeRuntime
from refcompare.wordpress.php import Php
from refcompare.wordpress.site import Site

FRESH: dict[str, dict[str, tuple[str, str]]] = {
    "options": {"blogname": ("blogname", "a"), "cron": ("cron", "b")},
    "posts": {"1": ("post Hello", "c")},
    "postmeta": {},
    "users": {"1": ("admin", "d")},
    "usermeta": {"1": ("nickname", "e")},
    "roles": {"editor": ("editor", "f")},
}


def after(**changed: dict[str, tuple[str, str] | None]) -> list[str]:
    rows: dict[str, Any] = {table: dict(items) for table, items in FRESH.items()}
    for table, items in changed.items():
        for key, value in items.items():
            rows.setdefault(table, {})[key] = value
        rows[table] = {key: value for key, value in rows.get(table, {}).items() if value is not None}
    return list(differences(FRESH, rows))


def test_a_site_that_is_as_it_was_differs_in_nothing():
    assert after() == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"options": {"acme": ("acme", "x")}}, ["the option 'acme' is left"]),
        ({"options": {"blogname": ("blogname", "x")}}, ["the option 'blogname' has changed"]),
        ({"options": {"blogname": None}}, ["the option 'blogname' is gone"]),
        ({"roles": {"editor": ("editor", "x")}}, ["the role 'editor' has changed"]),
        ({"usermeta": {"9": ("color", "x")}}, ["the user meta 'color' is left"]),
        ({"files": {"uploads/a.jpg": ("uploads/a.jpg", "1")}}, ["the file 'uploads/a.jpg' is left"]),
        ({"acme": {}}, ["the table 'acme' is left"]),
        ({"acme": {"1": ("", "x")}}, ["the table 'acme' is left"]),
    ],
)
def test_what_is_left_gone_or_changed_is_named(changed: Any, told: list[str]):
    assert after(**changed) == told


@pytest.mark.parametrize(
    "option", ["cron", "_transient_x", "_site_transient_timeout_x", "category_children", "theme_mods_acme"]
)
def test_what_wordpress_keeps_for_itself_is_passed_over(option: str):
    assert after(options={option: (option, "x")}) == []


def test_what_comes_and_goes_with_something_is_not_told_beside_it():
    assert after(posts={"5": ("post Shop", "x")}, postmeta={"7": ("price", "y")}) == [
        "the post 'post Shop' is left"
    ]
    assert after(users={"1": None}, usermeta={"1": None}) == ["the user 'admin' is gone"]


def test_a_table_that_is_gone_is_told():
    rows = {table: items for table, items in FRESH.items() if table != "users"}
    assert list(differences(FRESH, rows)) == ["the table 'users' is gone"]


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def test_the_last_mark_counts_and_what_a_test_prints_does_not():
    output = f"printed\n\nMARK{packed({'options': [['a', 'a', 'x']]})}\nmore\nMARK{packed({'posts': []})}\n"
    assert read_rows(output, "MARK") == {"posts": {}}


def test_rows_of_one_key_are_told_apart():
    rows = read_rows(f"MARK{packed({'t': [['1', '', 'a'], ['1', '', 'b']]})}", "MARK")
    assert rows == {"t": {"1": ("", "a"), "1#2": ("", "b")}}


@pytest.mark.parametrize(
    "output",
    [
        "",
        "MARK",
        "MARK!!",
        "MARKaaaa",
        f"MARK{packed([1])}",
        f"MARK{packed({'t': 5})}",
        f"MARK{packed({'t': [[1]]})}",
    ],
)
def test_output_that_is_something_else_says_nothing(output: str):
    with pytest.raises(Unreadable):
        read_rows(output, "MARK")


@given(st.text(max_size=60))
def test_no_output_makes_reading_raise_anything_else(text: str):
    with pytest.raises(Unreadable):
        read_rows(f"MARK{text}MARK", "MARK")


def test_a_bomb_is_not_unpacked():
    bomb = base64.b64encode(zlib.compress(b"[" * (80 * 1024 * 1024))).decode()
    with pytest.raises(Unreadable, match="too much"):
        read_rows(f"MARK{bomb}", "MARK")


@pytest.mark.wordpress
def test_the_look_at_the_site_sees_all_kinds_of_state(site: Site, php: Php):
    thread = GradingThread(NativeRuntime(site, php, installed_grader()))
    nothing = ExecutionTest("t", "s", "c", "p", 1, "", assertions=())
    everything = """
        update_option( 'acme', 1 );
        $post = wp_insert_post( array( 'post_title' => 'Shop', 'post_status' => 'publish' ) );
        wp_insert_user( array( 'user_login' => 'acme', 'user_pass' => 'x' ) );
        wp_insert_term( 'Sale', 'post_tag' );
        add_role( 'acme_clerk', 'Clerk' );
        $GLOBALS['wpdb']->query( 'CREATE TABLE acme_visits ( id int )' );
        wp_upload_bits( 'acme.txt', null, 'x' );
        set_transient( 'acme', 1, 60 );
        wp_schedule_single_event( time() + 3600, 'acme' );
    """
    try:
        limits = Limits(seconds=60, output=1024 * 1024)
        fresh, left = (
            read_rows(
                thread.grade(_observed(nothing, "MARK"), Candidate("x", code=code), limits).output, "MARK"
            )
            for code in ("", everything)
        )
    finally:
        thread.close()
    told = set(differences(fresh, left))
    assert {
        "the option 'acme' is left",
        "the post 'post Shop' is left",
        "the user 'acme' is left",
        "the term 'Sale' is left",
        "the role 'acme_clerk' is left",
        "the table 'acme_visits' is left",
    } <= told
    assert any(item.startswith("the file 'uploads/") for item in told)
    assert not any("transient" in item or "cron" in item for item in told)
