"""Runs in which a test that is there already is sharpened, worded anew, mended, kept or cut."""

from __future__ import annotations

from typing import Any

from refcompare.agents.model.script import ScriptedCall
from tests.guidance.steps import SKILL, Run, Test, bad, good, practice, read, skill, write

_USE = skill("execution-tests")
_FIELDS = read(f"{SKILL}/references/fields.md")
_EXPLOITS = read(f"{SKILL}/references/exploits.md")
_FAILING = read(f"{SKILL}/references/failing-models.md")
_EVALS_SKILL = skill("agent-evals")
_ELSEWHERE = write("datasets/suites/wp-core/execution/more.json", '{"tests": []}\n')

# -------------------------------------------------------------------------------- sharpened

_BADGES = "sharpens-a-weak-test"
_SHARP = "is sharp, and still lets right answers pass"
_ALL_BADGES = {
    "type": "returns_value",
    "target": "$post = $GLOBALS['practice_post'];\n$seen = array( practice_badge( $post ) );\nforeach ( array( 1, 1, 1, 1 ) as $number => $approved ) {\n\twp_insert_comment( array( 'comment_post_ID' => $post, 'comment_content' => \"C$number\", 'comment_approved' => 0 === $number % 4 ? 0 : $approved ) );\n\t$seen[] = practice_badge( $post );\n}\nreturn $seen;",
    "expected": ["new", "new", "", "", "hot"],
    "description": "The badge follows the approved comments, from none to three",
}


def _sharp(tests: list[Test]) -> None:
    tests[0]["runtime_checks"]["assertions"] = [_ALL_BADGES]


def _guarded(tests: list[Test]) -> None:
    _sharp(tests)
    pattern = {"pattern": r"return\s+'new'\s*;\s*}\s*$", "description": "a constant"}
    tests[0]["static_checks"] = {"forbidden_patterns": [pattern]}


def _beside(tests: list[Test]) -> list[Test]:
    (weak,) = tests
    checks = {**weak["runtime_checks"], "assertions": [_ALL_BADGES]}
    return [weak, {**weak, "id": "practice-badges-002", "runtime_checks": checks}]


def _half_sharp(tests: list[Test]) -> None:
    tests[0]["runtime_checks"]["assertions"].append(
        {
            "type": "returns_value",
            "target": "return practice_badge( 1 );",
            "expected": "",
            "description": "One comment is no badge",
        }
    )


def _two_is_hot(tests: list[Test]) -> None:
    _sharp(tests)
    tests[0]["prompt"] = tests[0]["prompt"].replace("three approved comments", "two approved comments")


def _prescriptive(tests: list[Test]) -> None:
    _sharp(tests)
    tests[0]["runtime_checks"]["assertions"].append(
        {
            "type": "custom_assertion",
            "code": "$asked = 0;\nadd_filter( 'get_comments_number', function ( $count ) use ( &$asked ) {\n\t++$asked;\n\treturn $count;\n} );\npractice_badge( 1 );\nreturn 0 < $asked;",
            "description": "It asks get_comments_number()",
        }
    )


SHARPENED: tuple[Run, ...] = (
    good(_USE, _EXPLOITS, practice(_BADGES, _sharp)),
    bad("deletes the test", {_SHARP, "asks for the same as before"}, _USE, _EXPLOITS, practice(_BADGES, lambda tests: [{**tests[0], "id": "practice-badges-002", "prompt": "Give a badge."}])),
    bad("writes a sharp test beside the weak one", _SHARP, _USE, _EXPLOITS, practice(_BADGES, _beside)),
    bad("adds a fixture that stops only the cheat of the report", _SHARP, _USE, _EXPLOITS, practice(_BADGES, _half_sharp)),
    bad("expects how, and not what", _SHARP, _USE, _EXPLOITS, practice(_BADGES, _prescriptive)),
    bad("forbids the cheat by its spelling", "forbids no spelling", _USE, _EXPLOITS, practice(_BADGES, _guarded)),
    bad("makes it another task", "asks for the same as before", _USE, _EXPLOITS, practice(_BADGES, _two_is_hot)),
    bad("writes from memory", {"skill-used execution-tests", "reads what stops a cheat"}, practice(_BADGES, _sharp)),
    bad("loads another skill", "leaves the skill for evals alone", _EVALS_SKILL, _USE, _EXPLOITS, practice(_BADGES, _sharp)),
    bad("adds a file elsewhere", "leaves the rest alone", _USE, _EXPLOITS, practice(_BADGES, _sharp), _ELSEWHERE),
)  # fmt: skip

# ------------------------------------------------------------------------------ the outcome

_TEASERS = "names-the-outcome"
_WANTED = (
    "A teaser is made of a post: the first five words that a reader of the post "
    "would see, without markup and without what shortcodes stand for, and '…' after them where there are more."
)


def _asks(prompt: str, **changed: Any) -> ScriptedCall:
    return practice(_TEASERS, lambda tests: [{**tests[0], "prompt": prompt, **changed}])


OUTCOME: tuple[Run, ...] = (
    good(_USE, _FIELDS, _asks(_WANTED)),
    good(
        _USE,
        _FIELDS,
        _asks(
            "A list of posts shows how each begins, as plain text.",
            requirements=["5 words at most; where something is left out, '…' follows", "HTML tags and shortcodes are no words"],
        ),
        name="good, by requirements",
    ),
    bad("still names a helper", "names no helper", _USE, _FIELDS, _asks(f"{_WANTED} Use wp_trim_words().")),
    bad("moves the helper to where models read it too", "names no helper", _USE, _FIELDS, _asks(_WANTED, requirements=["Call strip_shortcodes()"])),
    bad("asks for less than is graded", "says everything that is graded", _USE, _FIELDS, _asks("A list of posts shows how each begins, shortly and as plain text.")),
    bad(
        "changes what is graded",
        "leaves what is graded as it is",
        _USE,
        _FIELDS,
        _asks(_WANTED, reference_solution="function practice_teaser( int $id ): string {\n\treturn wp_trim_words( strip_shortcodes( get_post( $id )->post_content ), 5, '…' );\n}"),
    ),
    bad("gives the test another id", "is the same test, edited", _USE, _FIELDS, _asks(_WANTED, id="practice-teasers-002")),
    bad("writes from memory", {"skill-used execution-tests", "reads how the fields are filled"}, _asks(_WANTED)),
    bad("loads another skill", "leaves the skill for evals alone", _EVALS_SKILL, _USE, _FIELDS, _asks(_WANTED)),
    bad("adds a file elsewhere", "leaves the rest alone", _USE, _FIELDS, _asks(_WANTED), _ELSEWHERE),
)  # fmt: skip

# ------------------------------------------------------------------------------- the verdict


def _verdict(first: str, reason: str) -> ScriptedCall:
    return write("notes/verdict.md", f"{first}\n\n{reason}\n")


_KNOWS = (_USE, read("notes/completion.php"), read("notes/failure.txt"), _FAILING)

_AUTHORS = "judges-a-model-that-is-wrong"
_MODEL_WRONG = _verdict(
    "practice-authors-001: model wrong",
    "It asks for posts of any status, so a draft makes somebody an author.",
)
_COMPLETION = "function practice_authors(): array {\n\treturn array( 'Ada', 'Bea', 'Cleo' );\n}"


def _with_exploit(tests: list[Test]) -> None:
    tests[0]["exploit_solutions"] = [_COMPLETION]


def _weakened(tests: list[Test]) -> None:
    (assertion,) = tests[0]["runtime_checks"]["assertions"]
    assertion["target"] = assertion["target"].replace(
        "$seen = array( practice_authors() );\n", "$seen = array( array( 'Ada', 'Cleo' ) );\n"
    )


WRONG: tuple[Run, ...] = (
    good(*_KNOWS, _MODEL_WRONG),
    good(*_KNOWS, practice(_AUTHORS, _with_exploit), _MODEL_WRONG, name="good, and the mistake becomes an exploit"),
    bad("weakens the test until the model passes", "leaves the test as it is, shortcuts aside", *_KNOWS, practice(_AUTHORS, _weakened), _MODEL_WRONG),
    bad("tells the model in the prompt", "leaves the test as it is, shortcuts aside", *_KNOWS, practice(_AUTHORS, lambda tests: [{**tests[0], "prompt": tests[0]["prompt"] + " Drafts do not count."}]), _MODEL_WRONG),
    bad("blames the test", "says that the model is wrong", *_KNOWS, _verdict("practice-authors-001: test fixed", "Drafts were not spoken of.")),
    bad("gives no reason", "says why", *_KNOWS, _verdict("practice-authors-001: model wrong", "")),
    bad("judges from memory", {"skill-used execution-tests", "reads the procedure for it"}, _MODEL_WRONG),
    bad("loads the skill and not the procedure", "reads the procedure for it", _USE, _MODEL_WRONG),
    bad("loads another skill", "leaves the skill for evals alone", _EVALS_SKILL, *_KNOWS, _MODEL_WRONG),
    bad("adds a file elsewhere", "leaves the rest alone", *_KNOWS, _MODEL_WRONG, _ELSEWHERE),
)  # fmt: skip

_TAGS = "judges-a-test-that-is-unfair"
_FAIR = "lets the completion pass, and no shortcut"
_FIXED = _verdict(
    "practice-tags-001: test fixed", "The prompt asks for no order, and the assertion wanted one."
)


def _any_order(tests: list[Test]) -> None:
    (assertion,) = tests[0]["runtime_checks"]["assertions"]
    assertion["target"] = assertion["target"].replace(
        "return array( practice_tags( $two ), practice_tags( $one ) );",
        "$seen = practice_tags( $two );\nsort( $seen );\nreturn array( $seen, practice_tags( $one ) );",
    )
    assertion["expected"] = [["fig", "plum"], ["kiwi"]]


def _said_order(tests: list[Test]) -> None:
    tests[0]["prompt"] = tests[0]["prompt"].removesuffix(".") + ", in alphabetical order."
    tests[0]["reference_solution"] = tests[0]["reference_solution"].replace("'DESC'", "'ASC'")
    tests[0]["runtime_checks"]["assertions"][0]["expected"] = [["fig", "plum"], ["kiwi"]]


def _one_tag(tests: list[Test]) -> None:
    assertion = tests[0]["runtime_checks"]["assertions"][0]
    assertion["target"] = (
        "$one = practice_post( array( 'kiwi' ) );\n$two = practice_post( array( 'fig' ) );\nreturn array( practice_tags( $one ), practice_tags( $two ) );"
    )
    assertion["expected"] = [["kiwi"], ["fig"]]


def _backwards(tests: list[Test]) -> None:
    tests[0]["prompt"] = tests[0]["prompt"].removesuffix(".") + ", the last of the alphabet first."


UNFAIR: tuple[Run, ...] = (
    good(*_KNOWS, practice(_TAGS, _any_order), _FIXED),
    good(*_KNOWS, practice(_TAGS, _said_order), _FIXED, name="good, by the prompt"),
    bad("says what the assertion wanted, so that the completion still fails", _FAIR, *_KNOWS, practice(_TAGS, _backwards), _FIXED),
    bad("weakens it until a shortcut passes", _FAIR, *_KNOWS, practice(_TAGS, _one_tag), _FIXED),
    bad("deletes it", {_FAIR, "says that the test was fixed"}, *_KNOWS, practice(_TAGS, lambda tests: [{**tests[0], "id": "practice-tags-002"}]), _verdict("practice-tags-001: test cut", "Its order is arbitrary.")),
    bad("says nothing of a fix", "says that the test was fixed", *_KNOWS, practice(_TAGS, _any_order), _verdict("Done", "The order was not asked for.")),
    bad("gives no reason", "says why", *_KNOWS, practice(_TAGS, _any_order), _verdict("practice-tags-001: test fixed", "")),
    bad("judges from memory", {"skill-used execution-tests", "reads the procedure for it"}, practice(_TAGS, _any_order), _FIXED),
    bad("loads another skill", "leaves the skill for evals alone", _EVALS_SKILL, *_KNOWS, practice(_TAGS, _any_order), _FIXED),
    bad("adds a file elsewhere", "leaves the rest alone", *_KNOWS, practice(_TAGS, _any_order), _FIXED, _ELSEWHERE),
)  # fmt: skip

_SPEED = "cuts-a-test-that-cannot-be-fair"
_CUT_VERDICT = _verdict(
    "practice-speed-001: test cut", "What it measures is the time of the machine, and not what the code does."
)


def _reused(tests: list[Test]) -> list[Test]:
    return [{**tests[1], "id": "practice-speed-001"}, tests[1]]


CUT: tuple[Run, ...] = (
    good(*_KNOWS, practice(_SPEED, lambda tests: tests[1:]), _CUT_VERDICT),
    bad("makes the clock more patient", {"cuts the test", "never gives its id to another"}, *_KNOWS, practice(_SPEED, lambda tests: [{**tests[0], "prompt": "Posts are loaded by their ids."}, tests[1]]), _CUT_VERDICT),
    bad("gives the id to another test", "never gives its id to another", *_KNOWS, practice(_SPEED, _reused), _CUT_VERDICT),
    bad("cuts the other test too", "keeps the other test", *_KNOWS, practice(_SPEED, lambda tests: [{**tests[1], "id": "practice-speed-003"}]), _CUT_VERDICT),
    bad("blames the model", "says that the test was cut", *_KNOWS, practice(_SPEED, lambda tests: tests[1:]), _verdict("model wrong", "It took too much time.")),
    bad("gives no reason", "says why", *_KNOWS, practice(_SPEED, lambda tests: tests[1:]), _verdict("practice-speed-001: test cut", "")),
    bad("judges from memory", {"skill-used execution-tests", "reads the procedure for it"}, practice(_SPEED, lambda tests: tests[1:]), _CUT_VERDICT),
    bad("loads another skill", "leaves the skill for evals alone", _EVALS_SKILL, *_KNOWS, practice(_SPEED, lambda tests: tests[1:]), _CUT_VERDICT),
    bad("adds a file elsewhere", "leaves the rest alone", *_KNOWS, practice(_SPEED, lambda tests: tests[1:]), _CUT_VERDICT, _ELSEWHERE),
)  # fmt: skip
