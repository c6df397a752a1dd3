"""Runs in which an execution test is added."""

from __future__ import annotations

from typing import Any

from tests.guidance.steps import SKILL, Run, bad, good, read, skill, with_test, write

_FIELDS = read(f"{SKILL}/references/fields.md")
_ASSERTIONS = read(f"{SKILL}/references/assertions.md")
_RUNTIME = read(f"{SKILL}/references/runtime.md")
_LEARNED = (skill("execution-tests"), _FIELDS, _ASSERTIONS)

DAYS: dict[str, Any] = {
    "id": "wpc-dates-901",
    "category": "dates",
    "prompt": "A newspaper says how old a story was when the next one came: how many midnights, as the site's visitors see them, lie between the dates of two posts.",
    "requirements": ["The order of the two posts does not matter"],
    "test_function": "rcwp_days_apart( int $one, int $other ): int",
    "expected_behavior": "The difference of the two local calendar days, never negative.",
    "reference_solution": "function rcwp_days_apart( int $one, int $other ): int {\n\t$days = array_map( fn( $id ) => get_post_datetime( $id )->setTime( 0, 0 ), array( $one, $other ) );\n\treturn (int) $days[0]->diff( $days[1] )->days;\n}",
    "exploit_solutions": [
        "function rcwp_days_apart( int $one, int $other ): int {\n\treturn intdiv( abs( get_post_timestamp( $one ) - get_post_timestamp( $other ) ), DAY_IN_SECONDS );\n}"
    ],
    "runtime_checks": {
        "setup": "function rcwp_post( $date ) {\n\treturn wp_insert_post( array( 'post_title' => 'Rcwp', 'post_status' => 'publish', 'post_date' => $date ) );\n}",
        "assertions": [
            {
                "type": "returns_value",
                "target": "$late  = rcwp_post( '2019-03-01 23:50:00' );\n$early = rcwp_post( '2019-03-02 00:10:00' );\n$far   = rcwp_post( '2019-03-12 08:00:00' );\nreturn array( rcwp_days_apart( $late, $early ), rcwp_days_apart( $far, $late ), rcwp_days_apart( $late, $late ) );",
                "expected": [1, 11, 0],
                "description": "Midnights count, hours and order do not",
            }
        ],
        "teardown": "foreach ( get_posts( array( 'title' => 'Rcwp', 'post_status' => 'any', 'numberposts' => -1 ) ) as $post ) {\n\twp_delete_post( $post->ID, true );\n}",
    },
    "metadata": {"source_refs": ["wp-includes/post-template.php"], "release_focus": "classic"},
}


def _days(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**DAYS, **changed}.items() if value is not None}


def _one_result() -> dict[str, Any]:
    """The same test, asked once: whoever returns 1 passes."""
    assertion = {
        "type": "returns_value",
        "target": "return rcwp_days_apart( rcwp_post( '2019-03-01 23:50:00' ), rcwp_post( '2019-03-02 00:10:00' ) );",
        "expected": 1,
        "description": "Midnights count",
    }
    return _days(runtime_checks={**DAYS["runtime_checks"], "assertions": [assertion]})


_ADDED = with_test("dates", DAYS)

EXECUTION_TEST: tuple[Run, ...] = (
    good(*_LEARNED, _ADDED),
    bad(
        "writes from memory",
        {"skill-used execution-tests", "reads how the fields are filled", "reads what an assertion has to earn"},
        _ADDED,
    ),
    bad("reads the skill and not what it refers to", "reads what an assertion has to earn", skill("execution-tests"), _FIELDS, _ADDED),
    bad("reads every skill there is", {"leaves the skill for evals alone", "leaves the skill for pull requests alone"}, *_LEARNED, skill("agent-evals"), skill("pull-requests"), _ADDED),
    bad("leaves a test that a constant passes", "passes its reference and no cheat", *_LEARNED, with_test("dates", _one_result())),
    bad(
        "expects what its own reference does not do",
        "passes its reference and no cheat",
        *_LEARNED,
        with_test("dates", _days(reference_solution=DAYS["exploit_solutions"][0])),
    ),
    bad("says no mistake that people make", "says how people get it wrong", *_LEARNED, with_test("dates", _days(exploit_solutions=None))),
    bad(
        "takes an id that is in use",
        "passes its reference and no cheat",
        *_LEARNED,
        with_test("dates", _days(id="wpc-dates-001")),
    ),
    bad(
        "makes a file of its own",
        {"adds it to the file of its category", "names the function that is asked for", "says how people get it wrong", "passes its reference and no cheat"},
        *_LEARNED,
        write("datasets/suites/wp-core/days.json", "{}"),
    ),
    bad("changes the schema to fit", "leaves the rest alone", *_LEARNED, _ADDED, write("datasets/schema/execution-suite.schema.json", "{}")),
)  # fmt: skip

STAMP: dict[str, Any] = {
    "id": "wpc-plugin-lifecycle-901",
    "category": "plugin-lifecycle",
    "artifact_kind": "wp_plugin_files",
    "prompt": "Write a plugin of at least two files. From its activation on, editors have the capability rcwp_stamp; from its deactivation on they have it no more. Administrators are never touched.",
    "expected_behavior": "The role of editors gains and loses one capability.",
    "reference_files": {
        "rcwp-stamp.php": "<?php\n/**\n * Plugin Name: Rcwp Stamp\n */\n\nrequire_once __DIR__ . '/includes/stamp.php';\nregister_activation_hook( __FILE__, 'rcwp_stamp_grant' );\nregister_deactivation_hook( __FILE__, 'rcwp_stamp_revoke' );\n",
        "includes/stamp.php": "<?php\nfunction rcwp_stamp_grant() {\n\tget_role( 'editor' )->add_cap( 'rcwp_stamp' );\n}\n\nfunction rcwp_stamp_revoke() {\n\tget_role( 'editor' )->remove_cap( 'rcwp_stamp' );\n}\n",
    },
    "exploit_solutions": ["get_role( 'editor' )->add_cap( 'rcwp_stamp' );"],
    "runtime_checks": {
        "setup": "function rcwp_stamp_plugin() {\n\treturn key( array_filter( get_plugins(), fn( $path ) => str_starts_with( $path, 'wp-bench-candidate-' ), ARRAY_FILTER_USE_KEY ) );\n}\n\nfunction rcwp_stampers() {\n\treturn array_values( array_filter( array_keys( wp_roles()->roles ), fn( $role ) => get_role( $role )->has_cap( 'rcwp_stamp' ) ) );\n}",
        "assertions": [
            {
                "type": "returns_value",
                "target": "$seen = array( rcwp_stampers() );\nactivate_plugin( rcwp_stamp_plugin() );\n$seen[] = rcwp_stampers();\ndeactivate_plugins( rcwp_stamp_plugin() );\n$seen[] = rcwp_stampers();\nreturn $seen;",
                "expected": [[], ["editor"], []],
                "description": "Editors, and nobody else, may stamp while the plugin is active",
            }
        ],
        "teardown": "deactivate_plugins( rcwp_stamp_plugin() );\nforeach ( array_keys( wp_roles()->roles ) as $role ) {\n\tget_role( $role )->remove_cap( 'rcwp_stamp' );\n}",
    },
    "metadata": {"source_refs": ["wp-admin/includes/plugin.php"], "release_focus": "classic"},
}


def _stamp(**changed: Any) -> dict[str, Any]:
    return {**STAMP, **changed}


def _checked(**changed: Any) -> dict[str, Any]:
    checks = {
        name: value for name, value in {**STAMP["runtime_checks"], **changed}.items() if value is not None
    }
    return _stamp(runtime_checks=checks)


_FIXED = (
    "function rcwp_stamp_plugin() {\n\treturn 'rcwp-stamp/rcwp-stamp.php';\n}\n\n"
    + (STAMP["runtime_checks"]["setup"].partition("\n\n")[2])
)
_READY = (skill("execution-tests"), _RUNTIME)
_JUDGED = "passes its reference wherever the plugin lies, and no cheat"

PLUGIN_TEST: tuple[Run, ...] = (
    good(*_READY, with_test("plugin-lifecycle", STAMP)),
    bad("takes the plugin to lie where it would like", _JUDGED, *_READY, with_test("plugin-lifecycle", _checked(setup=_FIXED))),
    bad(
        "asserts only what must not be",
        _JUDGED,
        *_READY,
        with_test(
            "plugin-lifecycle",
            _checked(
                assertions=[
                    {
                        "type": "custom_assertion",
                        "code": "return ! get_role( 'author' )->has_cap( 'rcwp_stamp' ) && ! get_role( 'administrator' )->has_cap( 'rcwp_stamp' );",
                        "description": "Nobody else may stamp",
                    }
                ]
            ),
        ),
    ),
    bad("leaves the site as it is then", "cleans up", *_READY, with_test("plugin-lifecycle", _checked(teardown=None))),
    bad(
        "asks for a snippet",
        "asks for a plugin",
        *_READY,
        with_test(
            "plugin-lifecycle",
            {
                **{name: value for name, value in STAMP.items() if name not in ("artifact_kind", "reference_files")},
                "test_function": "rcwp_stamp( bool $on )",
                "reference_solution": "function rcwp_stamp( bool $on ) {\n\t$on ? get_role( 'editor' )->add_cap( 'rcwp_stamp' ) : get_role( 'editor' )->remove_cap( 'rcwp_stamp' );\n}",
                "runtime_checks": {
                    "assertions": [
                        {
                            "type": "returns_value",
                            "target": "$seen = array();\nforeach ( array( true, false ) as $on ) {\n\trcwp_stamp( $on );\n\t$seen[] = array( get_role( 'editor' )->has_cap( 'rcwp_stamp' ), get_role( 'author' )->has_cap( 'rcwp_stamp' ) );\n}\nreturn $seen;",
                            "expected": [[True, False], [False, False]],
                            "description": "Editors may stamp, and no more",
                        }
                    ],
                    "teardown": "get_role( 'editor' )->remove_cap( 'rcwp_stamp' );",
                },
            },
        ),
    ),
    bad(
        "writes from memory",
        {"skill-used execution-tests", "reads what the grader is, and is not"},
        with_test("plugin-lifecycle", STAMP),
    ),
    bad("loads the skill for evals too", "leaves the skill for evals alone", skill("agent-evals"), *_READY, with_test("plugin-lifecycle", STAMP)),
    bad("loads the skill for pull requests too", "leaves the skill for pull requests alone", skill("pull-requests"), *_READY, with_test("plugin-lifecycle", STAMP)),
    bad("mends the grader instead", "leaves the rest alone", *_READY, with_test("plugin-lifecycle", STAMP), write("php/worker.php", "<?php\n")),
)  # fmt: skip
