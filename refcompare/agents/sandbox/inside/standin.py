"""A very small coding agent: five tools, one loop, one model behind the gateway.

It is no product, but what a script or a stand-in for a model needs to work in a workspace for real:
its tools read, write and run what they are told to, and it writes down what they gave.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

WORKSPACE = os.environ["REFCOMPARE_WORKSPACE"]
SKILL_FOLDERS = (".agents/skills", ".claude/skills")
GUIDANCE = ("AGENTS.md", "CLAUDE.md")
OUTPUT = 60_000
TRIES = 3
TOOLS = {
    "Read": ("Give a file's text.", {"file_path": "path"}),
    "Write": ("Write a file, with its folders.", {"file_path": "path", "content": "text"}),
    "Edit": ("Replace a text that is in a file once.", {"file_path": "path", "old": "text", "new": "text"}),
    "Bash": ("Run a command in the workspace.", {"command": "a line for bash"}),
    "Skill": ("Load a skill by its name.", {"skill": "a name from the list"}),
}


def main() -> int:
    """Work on the prompt until the model calls no more tools."""
    started = time.monotonic()

    def tell(**line: Any) -> None:
        with open(os.environ["REFCOMPARE_TRAJECTORY"], "a", encoding="utf-8") as account:
            account.write(json.dumps(line) + "\n")

    messages = [{"role": "user", "content": sys.stdin.read()}]
    turns = int(os.environ.get("REFCOMPARE_TURNS", "50"))
    for _ in range(turns):
        try:
            said = ask(messages)
        except (OSError, ValueError) as error:
            tell(type="end", reason="api_error", error=str(error))
            return 1
        messages.append({"role": "assistant", "content": said})
        for block in said:
            if block["type"] == "text" and block["text"]:
                tell(type="message", text=block["text"])
        results = []
        for block in (block for block in said if block["type"] == "tool_use"):
            before = time.monotonic()
            output, code, failed = use(block["name"], block["input"])
            line = {"name": block["name"], "input": block["input"], "output": output, "id": block["id"]}
            when = {"seconds": before - started, "duration": time.monotonic() - before}
            tell(type="call", is_error=failed, exit_code=code, **line, **when)
            if block["name"] == "Read" and not failed:
                path = os.path.relpath(os.path.join(WORKSPACE, block["input"]["file_path"]), WORKSPACE)
                tell(type="read", path=path, content=output)
            if block["name"] == "Skill" and not failed:
                tell(type="skill", name=block["input"]["skill"])
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": output}
            results.append({**result, "is_error": failed})
        if not results:
            tell(type="end", reason="done")
            return 0
        messages.append({"role": "user", "content": results})
    tell(type="end", reason="turns")
    return 0


def ask(messages: Any) -> Any:
    """Give the blocks of the model's next turn."""
    body = {
        "model": os.environ.get("REFCOMPARE_MODEL", "stand-in"),
        "max_tokens": 8192,
        "system": guidance(),
        "messages": messages,
        "tools": [
            {
                "name": name,
                "description": text,
                "input_schema": {
                    "type": "object",
                    "properties": {
                        key: {"type": "string", "description": what} for key, what in keys.items()
                    },
                    "required": list(keys),
                },
            }
            for name, (text, keys) in TOOLS.items()
        ],
    }
    for attempt in range(TRIES):
        request = urllib.request.Request(
            os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
            json.dumps(body).encode(),
            {"content-type": "application/json", "anthropic-version": "2023-06-01"},
        )
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)["content"]
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace")
            if (error.code < 500 and error.code != 429) or attempt + 1 == TRIES:
                raise ValueError(f"{error.code}: {said[:500]}") from None
            time.sleep(0.1 * (attempt + 1))
    raise ValueError("no answer")


def guidance() -> str:
    """Give what an agent is told before it starts: the workspace's guidance, and what skills there are."""
    parts = ["You work in " + WORKSPACE + "."]
    for name in GUIDANCE:
        text = text_of(name)
        if text is not None:
            parts.append("# " + name + "\n\n" + text)
            break
    listed = ["- %s: %s" % (name, description) for name, description, _ in skills()]
    if listed:
        parts.append("# Skills\n\n" + "\n".join(listed))
    return "\n\n".join(parts)


def skills() -> Any:
    """Give (name, description, path) of each skill."""
    found: dict[str, Any] = {}
    for folder in SKILL_FOLDERS:
        base = os.path.join(WORKSPACE, folder)
        for entry in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            path = folder + "/" + entry + "/SKILL.md"
            text = text_of(path)
            if text is not None:
                header = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
                fields = dict(re.findall(r"^(\w+):\s*(.*)$", header.group(1) if header else "", re.MULTILINE))
                name = fields.get("name", entry).strip("'\" ")
                found.setdefault(name, (name, fields.get("description", "").strip("'\" "), path))
    return list(found.values())


def text_of(path: str) -> Any:
    """Give a file's text, or None where there is none."""
    try:
        with open(os.path.join(WORKSPACE, path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def use(tool: str, given: Any) -> Any:
    """Use a tool; give its output, the exit code of what it ran, and whether it failed."""
    try:
        if tool == "Bash":
            return run(given["command"])
        if tool == "Skill":
            for name, _, path in skills():
                if name == given["skill"]:
                    return text_of(path) or "", None, False
            return "There is no such skill.", None, True
        path = os.path.join(WORKSPACE, given["file_path"])
        if tool == "Read":
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(OUTPUT), None, False
        if tool == "Write":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(given["content"])
            return "Written.", None, False
        if tool == "Edit":
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if text.count(given["old"]) != 1:
                return "The text is not in the file once.", None, True
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(given["old"], given["new"]))
            return "Edited.", None, False
    except (OSError, KeyError, TypeError, ValueError) as error:
        return "%s: %s" % (type(error).__name__, error), None, True
    return "There is no tool of that name.", None, True


def run(command: str) -> Any:
    """Run a command and give what it printed."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=WORKSPACE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode("utf-8", "replace")[:OUTPUT], done.returncode, done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
