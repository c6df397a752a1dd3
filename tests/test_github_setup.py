"""How a runner is made ready: where the worker image comes from, and what the caches are called."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.github import setup
from refcompare.github.setup import cache_keys, chosen_runtime, prepare_image, publish_image
from refcompare.paths import CACHE_VARIABLE
from refcompare.sandbox import ProbeResult
from refcompare.wordpress.graders import installed_grader
from refcompare.wordpress.image import DEFAULT_BASE
from tests.result_builders import ENVIRONMENT

REFERENCE = "refcompare-worker:0123456789abcdef"
PUBLISHED = "images.example/octo/refcompare-worker"

# A stand-in for the docker command: an engine is a directory, an image a file in it. What the
# repository of published images has lies beside it.
DOCKER = r"""#!/bin/sh
echo "$@" >>"$DOCKER_STATE/calls"
name() { printf '%s' "$1" | tr '/:' '__'; }
last() { for word; do :; done; printf '%s' "$word"; }
case "$1" in
version) echo "27.0 linux" ;;
image)
	case "$2" in
	inspect) cat "$DOCKER_STATE/engine/$(name "$3")" 2>/dev/null || { echo "No such image" >&2; exit 1; } ;;
	rm) rm -f "$DOCKER_STATE/engine/$(name "$(last "$@")")" ;;
	esac ;;
load) cp "$4" "$DOCKER_STATE/engine/$(name "$REFERENCE")" ;;
save) cp "$DOCKER_STATE/engine/$(name "$4")" "$3" ;;
tag) cp "$DOCKER_STATE/engine/$(name "$2")" "$DOCKER_STATE/engine/$(name "$3")" ;;
pull) cp "$DOCKER_STATE/published/$(name "$3")" "$DOCKER_STATE/engine/" 2>/dev/null ||
	{ echo "manifest unknown" >&2; exit 1; } ;;
push) cp "$DOCKER_STATE/engine/$(name "$3")" "$DOCKER_STATE/published/" ;;
login) cat >"$DOCKER_STATE/password"; printf '%s' "$DOCKER_CONFIG" >"$DOCKER_STATE/config" ;;
*) echo "unknown $1" >&2; exit 1 ;;
esac
"""


class Engine:
    """The stand-in's state, and the images that were built."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.built: list[str] = []
        self.said: list[str] = []
        for name in ("engine", "published"):
            (directory / name).mkdir()

    def image(self, kind: str, reference: str, *, whole: bool = True, **fields: str) -> Path:
        """Put an image somewhere, as ``docker image inspect`` shows it."""
        php = {"binary": "/usr/bin/php", "extension_directory": "/ext", "extensions": []}
        environment = {name: getattr(ENVIRONMENT, name) for name in ENVIRONMENT.__dataclass_fields__}
        environment |= {"wordpress_digest": SITE.digest, "grader_digest": installed_grader().digest}
        environment |= fields
        manifest = {"environment": environment, "php": php, "protected": []}
        labels = {"refcompare.image": json.dumps(manifest)} if whole else {}
        path = self.directory / kind / reference.replace("/", "_").replace(":", "_")
        path.write_text(json.dumps([{"Id": "sha256:1", "Config": {"Labels": labels}}]))
        return path

    def calls(self, first: str) -> list[str]:
        lines = (self.directory / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{first} ")]

    def forget(self) -> None:
        """Be the engine of a new machine."""
        for path in (self.directory / "engine").iterdir():
            path.unlink()

    def prepare(self, repository: str = "") -> None:
        prepare_image(SITE, repository, self.said.append)


SITE: Any = SimpleNamespace(digest="s")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    state = tmp_path / "state"
    state.mkdir()
    found = Engine(state)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_STATE", str(state))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setenv("REFERENCE", REFERENCE)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))

    def build(*_: Any, **__: Any) -> Any:
        found.built.append(REFERENCE)
        found.image("engine", REFERENCE)
        return SimpleNamespace(reference=REFERENCE)

    # What an image is made of, and making one, is for tests with a real engine.
    monkeypatch.setattr(setup, "image_reference", lambda *_, **__: REFERENCE)
    monkeypatch.setattr(setup, "ensure_image", build)
    yield found


class TestWorkerImage:
    def test_the_engines_own_is_taken_first(self, engine: Engine) -> None:
        engine.image("engine", REFERENCE)
        engine.prepare(PUBLISHED)
        assert not engine.built and not engine.calls("pull") and not engine.calls("load")

    def test_then_the_published_one_by_the_digest_of_what_it_is_made_of(self, engine: Engine) -> None:
        engine.image("published", f"{PUBLISHED}:0123456789abcdef")
        engine.prepare(PUBLISHED)
        assert not engine.built and not engine.calls("load")
        assert engine.calls("pull") == [f"pull --quiet {PUBLISHED}:0123456789abcdef"]
        assert engine.said == [f"{REFERENCE} was pulled"]

    @pytest.mark.parametrize("repository", ["", PUBLISHED])
    def test_then_the_caches(self, engine: Engine, tmp_path: Path, repository: str) -> None:
        engine.prepare()
        assert engine.built == [REFERENCE]
        [saved] = (tmp_path / "cache" / "images").iterdir()
        assert saved.name == "0123456789abcdef.tar"
        engine.forget()
        engine.prepare(repository)  # where it is not published
        assert engine.built == [REFERENCE]
        assert engine.said[-1] == f"{REFERENCE} comes from the cache"

    def test_else_it_is_built(self, engine: Engine) -> None:
        engine.prepare(PUBLISHED)
        assert engine.built == [REFERENCE]
        assert "manifest unknown" in engine.said[0] and "could not be pulled" in engine.said[1]

    @pytest.mark.parametrize(
        "odd", [{"whole": False}, {"grader_digest": "another"}, {"wordpress_digest": "another"}]
    )
    def test_a_published_image_that_is_something_else_is_not_used(
        self, engine: Engine, odd: dict[str, Any]
    ) -> None:
        engine.image("published", f"{PUBLISHED}:0123456789abcdef", **odd)
        engine.prepare(PUBLISHED)
        assert engine.built == [REFERENCE]
        assert "no worker image of this WordPress and this grader" in engine.said[0]

    @pytest.mark.parametrize("text", [None, "damaged"])
    def test_a_cached_image_that_is_something_else_is_not_used(
        self, engine: Engine, tmp_path: Path, text: str | None
    ) -> None:
        saved = tmp_path / "cache" / "images" / "0123456789abcdef.tar"
        saved.parent.mkdir(parents=True)
        saved.write_text(text or engine.image("engine", REFERENCE, grader_digest="another").read_text())
        engine.forget()
        engine.prepare()
        assert engine.built == [REFERENCE]
        assert engine.said == []

    def test_without_an_engine_the_other_runtime_is_named(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        with pytest.raises(EnvironmentFailure, match="runtime: native"):
            engine.prepare()


class TestPublishing:
    @pytest.fixture(autouse=True)
    def no_wordpress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ensure_site", "ensure_release", "find_php"):
            monkeypatch.setattr(setup, name, lambda *_, **__: None)

    def test_it_is_pushed_under_the_name_that_is_looked_for(self, engine: Engine) -> None:
        published = publish_image(PUBLISHED, "octo", "ghs_secret", engine.said.append)
        assert published == f"{PUBLISHED}:0123456789abcdef"
        assert (engine.directory / "password").read_text() == "ghs_secret"
        assert engine.calls("login") == ["login images.example --username octo --password-stdin"]
        assert "ghs_secret" not in (engine.directory / "calls").read_text()
        # What logs in is kept nowhere.
        assert not Path((engine.directory / "config").read_text()).exists()
        assert "DOCKER_CONFIG" not in os.environ
        engine.forget()
        engine.built.clear()
        engine.prepare(PUBLISHED)
        assert not engine.built

    @pytest.mark.parametrize(
        "name", ["", "--help", "UPPER/case", "a b", "host/name:tag", "host/name@sha256:1"]
    )
    def test_what_is_no_repository_is_refused(self, engine: Engine, name: str) -> None:
        with pytest.raises(UsageError, match="IMAGE_REPOSITORY"):
            publish_image(name, "octo", "", engine.said.append)


class TestRuntime:
    @pytest.mark.parametrize(
        ("asked", "sandbox", "docker", "chosen"),
        [
            ("docker", True, False, "docker"),
            ("native", False, True, "native"),
            ("auto", True, True, "native"),
            ("auto", False, True, "docker"),
            ("auto", False, False, "native"),  # which can be set up, where an engine can't
        ],
    )
    def test_auto_takes_what_works_here(
        self, monkeypatch: pytest.MonkeyPatch, asked: str, sandbox: bool, docker: bool, chosen: str
    ) -> None:
        monkeypatch.setattr(setup, "probe", lambda: ProbeResult(sandbox, ""))
        monkeypatch.setattr(setup, "docker_available", lambda: ProbeResult(docker, ""))
        assert chosen_runtime(asked) == chosen

    def test_the_script_that_sets_up_is_the_actions_and_gets_no_token(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        script = tmp_path / "scripts" / "bootstrap"
        script.parent.mkdir()
        script.write_text(
            '#!/bin/sh\necho "$1 $REFCOMPARE_VENV ${GITHUB_TOKEN-none}" >"$(dirname "$0")/said"\nexit $2\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("GITHUB_ACTION_PATH", str(tmp_path))
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
        setup._bootstrap("system", lambda _: None)
        step, venv, token = (tmp_path / "scripts" / "said").read_text().split()
        assert (step, token) == ("system", "none") and Path(venv).is_dir()
        script.write_text("#!/bin/sh\nexit 3\n")
        with pytest.raises(EnvironmentFailure, match="bootstrap system"):
            setup._bootstrap("system", lambda _: None)

    def test_elsewhere_than_in_the_action_the_doctor_is_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("GITHUB_ACTION_PATH", str(tmp_path))
        with pytest.raises(EnvironmentFailure, match="refcompare doctor"):
            setup._bootstrap("system", lambda _: None)


class TestCacheKeys:
    def keys(
        self, runtime: str = "docker", wordpress: str = "", run: str = "1-1", day: str = "2026-01-02"
    ) -> dict[str, str]:
        return cache_keys(runtime, wordpress, run=run, day=day)

    def test_verdicts_are_saved_by_run_and_found_by_prefix(self) -> None:
        one, other = self.keys(run="1-1"), self.keys(run="2-1")
        assert one["verdict-key"] != other["verdict-key"]
        assert other["verdict-key"].startswith(one["verdict-prefix"])

    def test_a_site_is_for_its_release_and_runtime(self) -> None:
        keys = [self.keys(), self.keys("native"), self.keys(wordpress="7.2"), self.keys(wordpress="nightly")]
        assert len({key["site-key"] for key in keys}) == len(keys)
        assert self.keys()["site-key"] == self.keys(day="2026-01-03")["site-key"]

    def test_a_nightly_is_for_its_day(self) -> None:
        days = [self.keys(wordpress="nightly", day=day)["site-key"] for day in ("2026-01-02", "2026-01-03")]
        assert days[0] != days[1]

    def test_nothing_that_was_typed_can_be_more_than_a_part_of_a_name(self) -> None:
        key = self.keys(wordpress="../x,y\nz")["site-key"]
        assert key.isprintable() and "," not in key and "/" not in key


def test_the_base_image_is_pinned_to_a_release_of_its_distribution() -> None:
    assert DEFAULT_BASE.startswith("debian:") and ":latest" not in DEFAULT_BASE
