"""The hooks of .pre-commit-hooks.yaml, run by pre-commit itself before commits of a scratch repository."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from refcompare.sandbox import probe
from refcompare.wordpress.site import Site
from tests.rule_files import GOOD

pytest.importorskip("pre_commit", reason="pre-commit is not installed")

HOOKS = Path(__file__).parent.parent / ".pre-commit-hooks.yaml"
pytestmark = pytest.mark.skipif(not HOOKS.is_file(), reason="only a checkout has the hooks")
HOOK_FILE = "datasets/suites/shop/execution/hooks.json"


class Scratch:
    """A repository that uses the hooks of this checkout, as they would be installed."""

    def __init__(self, place: Path) -> None:
        self.root = place / "repository"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PRE_COMMIT_HOME": str(place / "pre-commit"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        for name in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{name}_NAME": "t", f"GIT_{name}_EMAIL": "t@example.org"}
        hooks = place / "hooks"
        self._make(hooks, ".pre-commit-hooks.yaml", _without_environment())
        config = {"repos": [{"repo": str(hooks), "rev": self._head(hooks), "hooks": []}]}
        self._hooks: list[dict[str, str]] = config["repos"][0]["hooks"]  # type: ignore[assignment]
        self._config = config
        self._make(self.root, ".pre-commit-config.yaml", yaml.safe_dump(config))

    def use(self, hook: str) -> None:
        self._hooks[:] = [{"id": hook}]
        (self.root / ".pre-commit-config.yaml").write_text(yaml.safe_dump(self._config))
        self.git("add", "-A")
        self.run("-m", "pre_commit", "install")

    def write(self, *tests: dict[str, Any]) -> None:
        place = self.root / HOOK_FILE
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"tests": list(tests)}, indent=2) + "\n")
        self.git("add", "-A")

    def commit(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", "commit", "-m", "x"],
            cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip

    def run(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=self.environment, check=True, capture_output=True
        )

    def git(self, *arguments: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=at or self.root, env=self.environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def _make(self, place: Path, name: str, text: str) -> None:
        place.mkdir()
        (place / name).write_text(text)
        self.git("init", "-q", "-b", "main", at=place)
        self.git("add", "-A", at=place)
        self.git("commit", "-q", "-m", "base", at=place)

    def _head(self, place: Path) -> str:
        return self.git("rev-parse", "HEAD", at=place)


def _without_environment() -> str:
    """Give the hooks, run by the refcompare that is tested instead of one that is installed first."""
    hooks = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))
    assert all(hook["language"] == "python" for hook in hooks)
    return yaml.safe_dump([{**hook, "language": "system"} for hook in hooks])


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def changed(**fields: Any) -> dict[str, Any]:
    test = copy.deepcopy(GOOD)
    test["runtime_checks"] |= fields
    return test


CONSTANT = [{"type": "returns_value", "target": "return acme_title( 'Shop' );", "expected": "Shop (3)"}]


def test_a_suite_that_breaks_a_rule_is_not_committed(scratch: Scratch):
    scratch.use("refcompare-check")
    scratch.write(changed(assertions=CONSTANT))
    done = scratch.commit()
    assert done.returncode == 1
    assert "[constant-answer]" in done.stdout + done.stderr
    scratch.write(GOOD)
    assert scratch.commit().returncode == 0


def test_a_commit_without_suites_is_not_held_up(scratch: Scratch):
    scratch.use("refcompare-check")
    (scratch.root / "README.md").write_text("x")
    scratch.git("add", "-A")
    done = scratch.commit()
    assert done.returncode == 0
    assert "no files to check" in done.stdout + done.stderr


@pytest.mark.wordpress
@pytest.mark.skipif(not probe().works, reason="no sandbox works here")
def test_a_test_that_became_cheatable_is_not_committed(scratch: Scratch, site: Site):
    scratch.write(GOOD)
    assert scratch.commit().returncode == 0
    scratch.use("refcompare-audit-changed")
    scratch.write(
        changed(assertions=[{"type": "custom_assertion", "code": "return '' !== acme_title( 'Shop' );"}])
    )
    done = scratch.commit()
    assert done.returncode == 1
    assert "newly exploitable" in done.stdout + done.stderr
    scratch.write(changed(teardown="delete_option( 'acme_orders' );\nwp_cache_flush();"))
    done = scratch.commit()
    assert done.returncode == 0, done.stdout + done.stderr
