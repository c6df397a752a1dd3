"""A test that no rule objects to, and a release of WordPress that is small enough to be read in a test."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from refcompare.paths import CACHE_VARIABLE
from refcompare.wordpress.releases import Release
from refcompare.wordpress.symbols import Symbols, symbols_of

GOOD: dict[str, Any] = {
    "id": "hooks-001",
    "category": "hooks",
    "prompt": "A shop wants the number of its open orders behind each title.",
    "expected_behavior": "The number is read when the title is shown, and is 0 where there are none.",
    "test_function": "acme_title( string $title ): string",
    "reference_solution": (
        "function acme_title( string $title ): string {\n"
        "\treturn $title . ' (' . (int) get_option( 'acme_orders' ) . ')';\n}"
    ),
    "static_checks": {},
    "runtime_checks": {
        "setup": "update_option( 'acme_orders', 3 );",
        "assertions": [
            {"type": "returns_value", "target": "return acme_title( 'Shop' );", "expected": "Shop (3)"},
            {
                "type": "returns_value",
                "target": "update_option( 'acme_orders', 5 );\nreturn acme_title( 'Inn' );",
                "expected": "Inn (5)",
            },
        ],
        "teardown": "delete_option( 'acme_orders' );",
    },
    "metadata": {"source_refs": ["wp-includes/post.php"]},
}

SOURCE = {
    "wp-load.php": "<?php\n",
    "wp-includes/post.php": """<?php
/**
 * Gives a post.
 *
 * @since 1.5.1
 * @since 6.5.0 Takes more.
 */
function get_post() {}

/** @since MU (3.0.0) */
function wp_insert_post( $post ) {
    /**
     * Fires.
     *
     * @since 7.1.0
     */
    do_action( 'acme_saved', $post );

    /** This action is documented elsewhere. */
    do_action( "save_post_{$post}", $post );
}
""",
    "wp-includes/abilities.php": """<?php
/**
 * @since 6.9.0
 */
function wp_register_ability( $name, $about ) {}

/**
 * Holds abilities.
 *
 * @since 6.9.0
 */
class WP_Abilities {
    /**
     * @since 7.0.0
     */
    public static function all() {}

    public function one() {}
}
""",
    "wp-includes/client/client.php": """<?php
namespace Acme\\Client;

/** @since 7.0.0 */
final class Client {
    public static function make() {}
}
""",
    "wp-includes/functions.php": "<?php\n"
    + "".join(
        f"/** @since 1.0.0 */\nfunction {name}() {{}}\n"
        for name in ("wp_remote_get", "wp_remote_retrieve_body", "wp_schedule_single_event", "wp_rand")
    ),
}


def a_release(place: Path, files: dict[str, str] = SOURCE, version: str = "7.1.1") -> Symbols:
    """Write a release below ``place`` and read what it defines, with a cache of its own."""
    core = place / "core"
    for path, text in files.items():
        (core / path).parent.mkdir(parents=True, exist_ok=True)
        (core / path).write_text(text, encoding="utf-8")
    (core / "wp-admin").mkdir(exist_ok=True)
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(place / "cache"))
        return symbols_of(Release(version, core, core, core, digest, "test"))
