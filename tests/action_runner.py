"""Runs ``action.yml`` as a GitHub runner does: its own steps, expressions, files and commands in the log.

Run steps are run, in bash, from the parsed file. The third-party actions in between are played by
small functions that do what those do: caches and artifacts are kept, and found again.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.github_server import REPOSITORY, TOKEN, GitHubServer

ROOT = Path(__file__).resolve().parent.parent
ACTION = ROOT / "action.yml"

_TOKEN = re.compile(r"\s*(?:'((?:[^']|'')*)'|(\|\||&&|==|!=|[()])|([A-Za-z_][\w.-]*))")


class Expression:
    """One ``${{ … }}`` of the kinds that the action uses: names, strings, comparisons, status functions."""

    def __init__(self, text: str, contexts: Mapping[str, Any], *, success: bool) -> None:
        self._tokens = list(_TOKEN.finditer(text.strip()))
        assert "".join(match[0] for match in self._tokens) == text.strip(), text
        self._contexts = contexts
        self._success = success
        self._at = 0
        self.asks_status = False
        self.value = self._either()
        assert self._at == len(self._tokens), text

    def _peek(self) -> str | None:
        return self._tokens[self._at][2] if self._at < len(self._tokens) else None

    def _either(self) -> Any:
        value = self._both()
        while self._peek() == "||":
            self._at += 1
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._equal()
        while self._peek() == "&&":
            self._at += 1
            other = self._equal()
            value = value and other
        return value

    def _equal(self) -> Any:
        value = self._one()
        while (operator := self._peek()) in ("==", "!="):
            self._at += 1
            same = str(value).casefold() == str(self._one()).casefold()
            value = same if operator == "==" else not same
        return value

    def _one(self) -> Any:
        token = self._tokens[self._at]
        self._at += 1
        if token[1] is not None:
            return token[1].replace("''", "'")
        if token[2] == "(":
            value = self._either()
            self._at += 1
            return value
        if self._peek() == "(":
            self._at += 2
            self.asks_status = True
            return {"always": True, "success": self._success, "failure": not self._success}[token[3]]
        found: Any = self._contexts
        for key in token[3].split("."):
            found = found.get(key, "") if isinstance(found, Mapping) else ""
        return found


@dataclass
class Command:
    """A workflow command that the runner obeyed."""

    name: str
    properties: dict[str, str]
    message: str


@dataclass
class Result:
    """What a use of the action came to."""

    status: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    steps: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    log: str = ""
    summary: str = ""
    commands: list[Command] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each step took."""

    def said(self, name: str) -> list[Command]:
        return [command for command in self.commands if command.name == name]


class ActionRunner:
    """One machine: a workspace, a temporary directory, and what GitHub keeps between jobs."""

    def __init__(self, github: GitHubServer, directory: Path, *, cache: Path | None = None) -> None:
        self.github = github
        self.directory = directory
        self.workspace = directory / "work" / "bench"
        self.temporary = directory / "temp"
        self.caches: dict[str, dict[str, Path]] = {}
        self.token = TOKEN
        self.environment: dict[str, str] = {}
        self.run_id = 9000
        self.installs = False
        """Whether the install step runs; else the environment of the tests is put in its place."""
        self.shared_cache = cache
        self.step_seconds = 280
        """How long a step may take."""

    def run(
        self,
        event: str,
        payload: Mapping[str, Any],
        *,
        sha: str = "",
        ref: str = "",
        action: Path = ACTION,
        **inputs: str,
    ) -> Result:
        """Use the action in a new job on a clean machine."""
        self.run_id += 1
        self._clean()
        definition = yaml.safe_load(action.read_text(encoding="utf-8"))
        unknown = {name.replace("_", "-") for name in inputs} - definition["inputs"].keys()
        assert not unknown, unknown
        contexts: dict[str, Any] = {"github": {"token": self.token}, "steps": {}}
        given = {name: str(item.get("default", "")) for name, item in definition["inputs"].items()}
        given = {name: self._fill(text, contexts, True) for name, text in given.items()}
        contexts["inputs"] = given | {name.replace("_", "-"): value for name, value in inputs.items()}
        result = Result()
        (self.directory / "event.json").write_text(json.dumps(payload))
        base = self._environment(event, sha, ref)
        for number, step in enumerate(definition["runs"]["steps"]):
            condition = Expression(step.get("if", "success()"), contexts, success=result.status == 0)
            if not condition.value or not (condition.asks_status or result.status == 0):
                continue
            result.ran.append(step["name"])
            started = time.perf_counter()
            status, outputs = self._step(step, number, contexts, base, result)
            result.seconds[step["name"]] = time.perf_counter() - started
            if status and not step.get("continue-on-error"):
                result.status = result.status or status
            contexts["steps"][step.get("id", f"step-{number}")] = {"outputs": outputs}
            result.steps[step["name"]] = outputs
        for name, item in definition["outputs"].items():
            result.outputs[name] = self._fill(item["value"], contexts, result.status == 0)
        return result

    def _clean(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        (self.temporary / "refcompare").mkdir(parents=True)
        if not self.installs:
            (self.temporary / "refcompare" / "venv").symlink_to(sys.prefix)

    def _environment(self, event: str, sha: str, ref: str) -> dict[str, str]:
        kept = (
            "PATH",
            "HOME",
            "LANG",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "DOCKER_HOST",
            "PIP_INDEX_URL",
            "PIP_CERT",
        )
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": self.github.url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.directory / "event.json"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REF": ref,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(self.run_id),
            "GITHUB_SHA": sha,
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "REFCOMPARE_GITHUB_SECONDS": "4",
            **self.environment,
        }

    def _step(
        self,
        step: dict[str, Any],
        number: int,
        contexts: dict[str, Any],
        base: dict[str, str],
        result: Result,
    ) -> tuple[int, dict[str, str]]:
        success = result.status == 0
        if "uses" in step:
            name = step["uses"].partition("@")[0]
            given = {
                key: self._fill(str(value), contexts, success) for key, value in step.get("with", {}).items()
            }
            return 0, self._played()[name](given)
        if step["name"] == "Install refcompare" and not self.installs:
            return 0, {}
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script can be code"
        files = {
            name: self.directory / f"{name}-{number}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        for path in files.values():
            path.write_text("")
        script = self.directory / "step.sh"
        script.write_text(step["run"])
        environment = base | {name: str(path) for name, path in files.items()}
        environment |= {
            key: self._fill(str(value), contexts, success) for key, value in step.get("env", {}).items()
        }
        self.workspace.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=self.step_seconds,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        assert self.token not in text, "the token is in the log"
        result.log += f"== {step['name']}\n{text}"
        result.commands += obeyed(text)
        result.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        return done.returncode, parse_outputs(files["GITHUB_OUTPUT"].read_text(encoding="utf-8"))

    def _fill(self, text: str, contexts: Mapping[str, Any], success: bool) -> str:
        def value(match: re.Match[str]) -> str:
            found = Expression(match[1], contexts, success=success).value
            return str(found).lower() if isinstance(found, bool) else str(found)

        return re.sub(r"\$\{\{(.*?)\}\}", value, text)

    # ------------------------------------------------------------------- other people's actions

    def _played(self) -> dict[str, Callable[[dict[str, str]], dict[str, str]]]:
        return {
            "actions/setup-python": lambda _: {"python-path": sys.executable},
            "actions/cache/restore": self._restore,
            "actions/cache/save": self._save,
            "actions/upload-artifact": self._upload,
        }

    def _restore(self, given: dict[str, str]) -> dict[str, str]:
        if self.shared_cache is not None and Path(given["path"].split()[0]).name == "releases":
            return self._link_shared(given["path"].split(), self.shared_cache)
        prefixes = [given["key"], *given.get("restore-keys", "").split()]
        for prefix in prefixes:
            for key in sorted(self.caches, reverse=True):
                if key.startswith(prefix):
                    for original, copy in self.caches[key].items():
                        shutil.copytree(copy, original, symlinks=True, dirs_exist_ok=True)
                    return {"cache-hit": "true" if key == given["key"] else ""}
        return {}

    def _save(self, given: dict[str, str]) -> dict[str, str]:
        if given["key"] not in self.caches:
            kept = {}
            for number, path in enumerate(filter(os.path.isdir, given["path"].split())):
                kept[path] = self.directory / "caches" / given["key"] / str(number)
                shutil.copytree(path, kept[path], symlinks=True)
            self.caches[given["key"]] = kept
        return {}

    def _link_shared(self, paths: list[str], shared: Path) -> dict[str, str]:
        """Put what this machine has of WordPress into place, as a cache of an earlier job would."""
        for path in map(Path, paths):
            if (shared / path.name).is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(shared / path.name)
        return {"cache-hit": "true"}

    def _upload(self, given: dict[str, str]) -> dict[str, str]:
        root, data = Path(given["path"]), io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(root.rglob("*")):
                if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts):
                    archive.write(path, path.relative_to(root).as_posix())
        self.github.add_artifact(self.run_id, given["name"], data.getvalue())
        return {"artifact-url": f"https://github.example/{REPOSITORY}/actions/runs/{self.run_id}/artifacts/1"}


def parse_outputs(text: str) -> dict[str, str]:
    """Read a GITHUB_OUTPUT file: ``name=value`` lines, and values between two like words."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if "<<" in line and "=" not in line.partition("<<")[0]:
            name, _, end = line.partition("<<")
            value = []
            for inner in lines:
                if inner == end:
                    break
                value.append(inner)
            found[name] = "\n".join(value)
        elif line:
            name, _, text = line.partition("=")
            found[name] = text
    return found


def obeyed(log: str) -> list[Command]:
    """Give the commands in a log that a runner obeys, those between stop and resume left out."""
    found: list[Command] = []
    stopped: str | None = None
    for line in log.splitlines():
        new = re.match(r"\s*::([\w-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)", line)
        old = re.search(r"##\[([\w-]+)(?: ([^\]]*))?\](.*)", line)
        match = new or old
        if match is None:
            continue
        name, listed, message = match[1], match[2] or "", match[3]
        if stopped is not None:
            stopped = None if name == stopped else stopped
        elif name == "stop-commands":
            stopped = message
        else:
            pairs = (item.partition("=") for item in listed.split("," if new else ";") if item)
            properties = {key: _decoded(value, property_=True) for key, _, value in pairs}
            found.append(Command(name, properties, _decoded(message)))
    assert stopped is None, "commands were stopped and never resumed"
    return found


def _decoded(text: str, *, property_: bool = False) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), *((("%3A", ":"), ("%2C", ",")) if property_ else ())):
        text = text.replace(code, char)
    return text.replace("%25", "%")
