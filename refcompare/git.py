"""Refs to trees, read from git's object database and never through a checkout.

GitPython runs git; one ``git cat-file --batch`` is kept open for the bytes. Every command only reads, with
whatever in a repository names a program to run switched off, with locks and lazy fetches refused, and with
replacement objects ignored, so that a tree is exactly what its SHA says. Git is never asked to compare a file
on disk with the index, since that runs the repository's clean filters: see `WorktreeTree`.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import os
import re
import shlex
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, cast

from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.tree import TreeFile

if TYPE_CHECKING:
    from git import Git

WORKTREE = "WORKTREE"

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # The second refuses every transport, for a git that is too old to know the first.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
}
_OPTIONS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.warnAmbiguousRefs=true"),
)
_DEFAULT_BRANCHES = ("main", "master", "trunk")
_ABBREVIATED = 7
# Bytes up to which a file is read to learn how long its text is once line endings are converted.
_MEASURED = 16 * 1024 * 1024
_SHA = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_FULL_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.IGNORECASE)
# A name, and what git may be asked to find from there: main~2, main^{tree}, main@{1}, main:folder.
_NAME_AND_REST = re.compile(r"(?P<name>.+?)(?P<rest>(?:[~^:]|@\{).*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What a ref turned out to be. It does not move when the branch does.

    ``spec`` is what the user typed; ``commit`` the full SHA, None for WORKTREE or a bare tree; ``label`` is
    printable and short: ``main (abc1234)``, ``WORKTREE``, ``A...B (merge base abc1234)``.
    """

    spec: str
    commit: str | None
    label: str


class _Result(NamedTuple):
    status: int
    stdout: bytes
    stderr: str

    @property
    def line(self) -> str:
        """Standard output as one line of text."""
        return _text(self.stdout.removesuffix(b"\n"))

    @property
    def complaint(self) -> str:
        """The first line with which git said why it failed."""
        lines = [line for line in self.stderr.splitlines() if line.startswith(("fatal: ", "error: "))]
        return printable(lines[0].partition(": ")[2]) if lines else f"exit status {self.status}"


class _Git:
    """Runs git commands that read, in one directory, with nothing of the repository's run."""

    def __init__(self, directory: Path) -> None:
        try:
            # Importing GitPython looks for git and fails without it; only those who need git should notice.
            from git import Git
        except ImportError as error:
            raise EnvironmentFailure(
                "git was not found on PATH: install it, for example with `apt-get install git`, and retry."
            ) from error
        self._git: Git = Git(directory)
        self._git.update_environment(**_ENVIRONMENT)

    def pin(self, **variables: str) -> None:
        """Set environment variables for every later command."""
        self._git.update_environment(**variables)

    def run(self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> _Result:
        """Run one command to its end, whatever its status."""
        from git.exc import GitCommandNotFound

        try:
            with tempfile.TemporaryFile() if stdin else nullcontext() as feed:
                if feed:
                    feed.write(stdin)
                    feed.seek(0)
                result = self._git.execute(
                    self._argv(words),
                    env=environment,
                    istream=cast("BinaryIO | None", feed),
                    with_extended_output=True,
                    with_exceptions=False,
                    stdout_as_string=False,
                    strip_newline_in_stdout=False,
                )
        except (GitCommandNotFound, OSError) as error:
            raise EnvironmentFailure(f"git could not be run ({error}): install it and try again.") from error
        return _Result(*result)

    def read(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run one command that has to succeed, and give its output."""
        return self._succeed(words[0], self.run(*words, stdin=stdin))

    def _succeed(self, command: str, result: _Result) -> bytes:
        if result.status:
            what = f"`git {command}` failed: {result.complaint}."
            raise EnvironmentFailure(what + self.advice(result.stderr))
        return result.stdout

    def read_index(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run one command that reads the index and has to succeed, and give its output.

        To read a sparse index git expands it, for which it writes tree objects: they go to a scratch place.
        """
        objects = self.path("objects").replace("\\", r"\\").replace('"', r"\"")
        others = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        with tempfile.TemporaryDirectory(prefix="refcompare-") as scratch:
            environment = {
                "GIT_OBJECT_DIRECTORY": scratch,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'
                + (f"{os.pathsep}{others}" if others else ""),
            }
            return self._succeed(words[0], self.run(*words, stdin=stdin, environment=environment))

    def path(self, name: str) -> str:
        """Give the path of one of the repository's own files, absolute or from the working tree's root."""
        return _text(self.read("rev-parse", "--git-path", name).removesuffix(b"\n"))

    def start(self, *words: str) -> Git.AutoInterrupt:
        """Start a command to talk to. A Ctrl-C on the terminal is not for it."""
        return self._git.execute(self._argv(words), istream=-1, as_process=True, start_new_session=True)

    def _argv(self, words: Iterable[str]) -> list[str]:
        return [str(self._git.GIT_PYTHON_GIT_EXECUTABLE), *_OPTIONS, *words]

    def config(self, name: str) -> str | None:
        """Give one configuration value, the last one set."""
        result = self.run("config", "-z", "--get", name)
        return None if result.status else _text(result.stdout.removesuffix(b"\0"))

    def flag(self, name: str, default: bool) -> bool:
        """Give one configuration value that is yes or no."""
        result = self.run("config", "--type=bool", "--get", name)
        return default if result.status else result.line == "true"

    def remotes(self) -> list[str]:
        """Give the names of the remotes, ``origin`` first."""
        names = _text(self.read("remote")).split("\n")[:-1]
        return sorted(names, key=lambda name: name != "origin")

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """Give the size in bytes of every one of the blobs that is in the object database."""
        names = "".join(f"{blob}\n" for blob in dict.fromkeys(blobs)).encode()
        if not names:
            return {}
        result = self.run("cat-file", "--batch-check", "--buffer", stdin=names)
        if result.status:
            # A partial clone: git gives up on the first object that it would have to fetch.
            listing = self.read("cat-file", "--batch-check", "--batch-all-objects", "--unordered", "--buffer")
        else:
            listing = result.stdout
        found = (line.split() for line in listing.decode("ascii", "replace").splitlines())
        return {words[0]: int(words[2]) for words in found if len(words) == 3 and words[1] == "blob"}

    def advice(self, stderr: str = "") -> str:
        """Say what to do about an object that is not here, if the clone is one that leaves objects out."""
        partial = self.run("config", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        if partial.status and "promisor" not in stderr:
            return " Run `git fsck` to see what is wrong with this repository."
        remote = next(iter(self.remotes()), "origin")
        return (
            " This is a partial clone, and refcompare fetches nothing by itself: run"
            f" `git fetch --refetch --no-filter {shlex.quote(remote)}` and try again."
        )


class _Objects:
    """One ``git cat-file --batch`` kept open, so that a blob costs microseconds. Threads may share it."""

    def __init__(self, git: _Git) -> None:
        self._git = git
        self._process: Git.AutoInterrupt | None = None
        self._lock = threading.Lock()
        self._closed = False

    def blob(self, name: str, path: str) -> bytes:
        """Give a blob's bytes. ``path`` is for people. Raises EnvironmentFailure if it cannot be had."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the repository was closed before its trees were read")
            try:
                data = self._ask(name)
            except BaseException as error:
                # An answer that was not read to its end would be taken for the next one's.
                self._stop()
                if not isinstance(error, OSError | EOFError | ValueError):
                    raise
                data = None
        if data is None:
            raise EnvironmentFailure(
                f"{printable(path)} cannot be read: object {name} is missing or damaged.{self._git.advice()}"
            )
        return data

    def _ask(self, name: str) -> bytes | None:
        if self._process is None:
            self._process = self._git.start("cat-file", "--batch")
        self._process.stdin.write(f"{name}\n".encode("ascii"))
        self._process.stdin.flush()
        header = self._process.stdout.readline().split()
        if not header:
            raise EOFError
        if len(header) != 3 or header[1] != b"blob":
            raise ValueError(header)
        size = int(header[2])
        data: bytes = self._process.stdout.read(size)
        if len(data) != size or self._process.stdout.read(1) != b"\n":
            raise EOFError
        return data

    def _stop(self) -> None:
        process, self._process = self._process, None
        del process  # GitPython ends it, waits for it and closes its pipes as the last reference goes

    def close(self) -> None:
        """End the process. Later reads are refused."""
        with self._lock:
            self._closed = True
            self._stop()


class _Entry(NamedTuple):
    """One regular file: ``blob`` holds its bytes, or with ``blob`` None the disk does."""

    executable: bool
    size: int
    blob: str | None
    indexed: str | None = None


class GitTree:
    """The regular files of a commit or tree, read from the object database."""

    def __init__(self, ref: ResolvedRef, digest: str, git: _Git, objects: _Objects) -> None:
        self.ref = ref
        self._digest = digest
        self._git = git
        self._objects = objects

    @property
    def digest(self) -> str:
        """Git's own id of the tree: SHA-1, or SHA-256 where the repository uses it."""
        return self._digest

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in the order of the paths' bytes.

        In a partial clone a file whose blob was left out has size 0, and cannot be read.
        """
        return _tree_files(self._entries)

    def read(self, path: str) -> bytes:
        """Give one file's bytes as stored. Raises KeyError, or EnvironmentFailure when they are not here."""
        blob = self._entries[path].blob
        assert blob is not None
        return self._objects.blob(blob, path)

    @functools.cached_property
    def _entries(self) -> dict[str, _Entry]:
        listing = []
        for record in self._git.read("ls-tree", "-r", "-z", "--full-tree", self._digest).split(b"\0")[:-1]:
            meta, _, path = record.partition(b"\t")
            mode, _, blob = meta.decode("ascii").split(" ")
            if mode.startswith("100"):
                listing.append((_text(path), mode, blob))
        sizes = self._git.sizes(blob for _, _, blob in listing)
        return {path: _Entry(mode == "100755", sizes.get(blob, 0), blob) for path, mode, blob in listing}


class WorktreeTree:
    """The files as they lie: tracked and untracked ones, with uncommitted edits; not ignored or deleted ones.

    The bytes are those that ``git add`` would store, filter programs aside, so that an untouched checkout
    reads like its commit. A file that the index knows to be unmodified (as in git: same times, size and
    inode, and older than the index) is read from the object database, and so is one that a sparse checkout
    left out. Any other is read from the disk, with its line endings converted as the attributes and
    ``core.autocrlf`` ask; a Git LFS file whose content is the committed one becomes its pointer. The list of
    files is made once, when the ref is resolved.
    """

    def __init__(self, root: Path, git: _Git, objects: _Objects) -> None:
        self.ref = ResolvedRef(WORKTREE, None, WORKTREE)
        self._root = _bytes(str(root))
        self._git = git
        self._objects = objects
        self._rules: dict[str, _Rule] = {}
        self._entries = self._list()

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over each file's path, mode and git blob id, so never the digest of a commit."""
        total = hashlib.sha256(b"refcompare worktree\0")
        for path, entry in self._entries.items():
            blob = entry.blob or self._blob_id(self._stored(path, entry))
            mode = "100755" if entry.executable else "100644"
            total.update(_bytes(path) + f"\0{mode} {blob}\n".encode("ascii"))
        return total.hexdigest()

    def files(self) -> Iterator[TreeFile]:
        """Give every regular file, in the order of the paths' bytes.

        The size of a file over 16 MiB is that on the disk, before its line endings are converted.
        """
        return _tree_files(self._entries)

    def read(self, path: str) -> bytes:
        """Give one file's bytes. Raises KeyError, or EnvironmentFailure when the file went away meanwhile."""
        return self._stored(path, self._entries[path])

    def _list(self) -> dict[str, _Entry]:
        entries = dict(self._tracked())
        entries.update(self._untracked())
        return self._measured({path: entries[path] for path in sorted(entries, key=_bytes)})

    def _tracked(self) -> Iterator[tuple[str, _Entry]]:
        keeps_modes = self._git.flag("core.fileMode", True)
        has_symlinks = self._git.flag("core.symlinks", True)
        index_seconds = self._index_seconds()
        for item in _index(self._git):
            regular = item.mode.startswith("100")
            executable = item.mode == "100755"
            if item.skipped:
                if regular:
                    yield _text(item.path), _Entry(executable, 0, item.blob)
                continue
            if item.mode == "120000" and not has_symlinks:
                continue  # here git writes a symlink as a file that holds its target
            found = self._lstat(item.path)
            if found is None:
                continue
            if keeps_modes:
                executable = bool(found.st_mode & stat.S_IXUSR)
            indexed = item.blob if item.stage == "0" and regular else None
            blob = indexed if item.matches(found, index_seconds) else None
            yield _text(item.path), _Entry(executable, found.st_size, blob, indexed)

    def _untracked(self) -> Iterator[tuple[str, _Entry]]:
        keeps_modes = self._git.flag("core.fileMode", True)
        listing = self._git.read_index("ls-files", "-z", "--others", "--exclude-standard")
        for path in listing.split(b"\0")[:-1]:
            found = self._lstat(path)
            if found is not None:
                executable = keeps_modes and bool(found.st_mode & stat.S_IXUSR)
                yield _text(path), _Entry(executable, found.st_size, None)

    def _lstat(self, path: bytes) -> os.stat_result | None:
        """Give what the disk says of a regular file beneath the root; None for anything else, or nothing."""
        if not self._is_folder(path.rpartition(b"/")[0]):
            return None
        try:
            found = os.lstat(os.path.join(self._root, path))  # noqa: PTH118
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    @functools.cached_property
    def _is_folder(self) -> Callable[[bytes], bool]:
        return functools.cache(functools.partial(_is_folder, self._root))

    def _measured(self, entries: dict[str, _Entry]) -> dict[str, _Entry]:
        """Give the entries with the size of the bytes that will be read, if not that on the disk."""
        sizes = self._git.sizes(entry.blob for entry in entries.values() if entry.blob)
        for path, entry in entries.items():
            if entry.blob in sizes:
                entries[path] = entry._replace(size=sizes[entry.blob])
            elif entry.blob and entry.indexed:
                entries[path] = entry._replace(blob=None)  # a partial clone without it, but the disk has it
        self._rules = _rules(self._git, [path for path, entry in entries.items() if entry.blob is None])
        for path in self._rules:
            if entries[path].size <= _MEASURED:
                # That a file cannot be read matters when somebody reads it.
                with suppress(EnvironmentFailure):
                    entries[path] = entries[path]._replace(size=len(self._stored(path, entries[path])))
        return entries

    def _index_seconds(self) -> int:
        """Give the time at which the index was written, in whole seconds; 0 when there is none."""
        try:
            return int(os.stat(os.path.join(self._root, _bytes(self._git.path("index")))).st_mtime)  # noqa: PTH116, PTH118
        except FileNotFoundError:
            return 0

    def _stored(self, path: str, entry: _Entry) -> bytes:
        """Give the bytes that git would store for a file."""
        if entry.blob:
            return self._objects.blob(entry.blob, path)
        try:
            data = _read_beneath(self._root, _bytes(path))
        except OSError as error:
            raise EnvironmentFailure(
                f"{printable(path)} in {WORKTREE} cannot be read: {error.strerror}."
            ) from error
        rule = self._rules.get(path)
        return data if rule is None else rule.apply(data, functools.partial(self._indexed, path, entry))

    def _indexed(self, path: str, entry: _Entry) -> bytes:
        try:
            return self._objects.blob(entry.indexed, path) if entry.indexed else b""
        except EnvironmentFailure:
            return b""  # left out of a partial clone

    def _blob_id(self, data: bytes) -> str:
        header = b"blob %d\0" % len(data)
        if self._hashes_with_sha256:
            return hashlib.sha256(header + data).hexdigest()
        return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()

    @functools.cached_property
    def _hashes_with_sha256(self) -> bool:
        return self._git.run("rev-parse", "--show-object-format").line == "sha256"


class _IndexItem(NamedTuple):
    tag: str
    mode: str
    blob: str
    stage: str
    path: bytes
    times: tuple[int, ...]

    @property
    def skipped(self) -> bool:
        return self.tag in "Ss"

    def matches(self, found: os.stat_result, index_seconds: int) -> bool:
        """Say whether the file is surely the one that was added, by git's own rules.

        https://git-scm.com/docs/racy-git: a file no older than the index may have been changed since without
        a trace in its times. Git then compares contents; here the answer is no, and the disk is read.
        """
        if not self.times or self.times[2] >= index_seconds:
            return False
        numbers = (
            *divmod(found.st_ctime_ns, 10**9),
            *divmod(found.st_mtime_ns, 10**9),
            found.st_ino,
            found.st_uid,
            found.st_gid,
            found.st_size,
        )
        return self.times == tuple(number & 0xFFFFFFFF for number in numbers)


_INDEX_ITEM = re.compile(
    rb"(\S) (\d{6}) ([0-9a-f]+) (\d)\t([^\0]+)\0"
    rb"(?:  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n"
    rb"  uid: (\d+)\tgid: (\d+)\n  size: (\d+)\tflags: [0-9a-f]+\n)?"
)


def _index(git: _Git) -> Iterator[_IndexItem]:
    """Give the entries of the index, with what it knows of the files on disk if this git tells it."""
    words = ("ls-files", "-z", "-v", "--stage")
    listing = git.read_index(*words, "--debug")
    # Git's manual reserves the right to change this form; then no file counts as known.
    if sum(len(item.group()) for item in _INDEX_ITEM.finditer(listing)) != len(listing):
        listing = git.read_index(*words)
    for item in _INDEX_ITEM.finditer(listing):
        tag, mode, blob, stage, path, *times = item.groups()
        known = tuple(int(number) for number in times if number is not None)
        yield _IndexItem(tag.decode(), mode.decode(), blob.decode(), stage.decode(), path, known)


_CONTROL_IN_TEXT = b"\b\t\n\f\x1b"
_NOT_PRINTABLE = bytes(code for code in range(32) if code not in _CONTROL_IN_TEXT and code != 13) + b"\x7f"
_LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n.*oid sha256:([0-9a-f]{64})\n", re.DOTALL
)


class _Rule(NamedTuple):
    """How git would convert a file on its way into the object database.

    ``text`` is "text" (declared), "auto" (git looks at the content) or "" (kept as it is).
    """

    text: str
    lfs: bool

    def apply(self, data: bytes, indexed: Callable[[], bytes]) -> bytes:
        if self.lfs:
            pointer = indexed()
            match = _LFS_POINTER.match(pointer) if len(pointer) < 1024 else None
            if match and match[1].decode() == hashlib.sha256(data).hexdigest():
                return pointer
        if not self.text or b"\r\n" not in data:
            return data
        # Content that was committed with CRLF stays so: https://git-scm.com/docs/gitattributes, "text=auto".
        if self.text == "auto" and (_is_binary(data) or _has_crlf(indexed())):
            return data
        return data.replace(b"\r\n", b"\n")


def _is_binary(data: bytes) -> bool:
    """Say whether git takes content for binary: a NUL, a lone CR, or too many control characters."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    strange = len(data) - len(data.translate(None, _NOT_PRINTABLE)) - data.endswith(b"\x1a")
    printable = len(data) - len(data.translate(None, bytes(set(range(256)) - set(_NOT_PRINTABLE + b"\r\n"))))
    return printable >> 7 < strange


def _has_crlf(data: bytes) -> bool:
    return b"\r\n" in data and not _is_binary(data)


def _rules(git: _Git, paths: list[str]) -> dict[str, _Rule]:
    """Give the rule for each of the paths that has one, from the attributes and ``core.autocrlf``."""
    if not paths:
        return {}
    names = ("text", "crlf", "eol", "filter")
    stdin = b"".join(_bytes(path) + b"\0" for path in paths)
    words = iter(git.read_index("check-attr", "-z", "--stdin", *names, stdin=stdin).split(b"\0"))
    attributes: dict[str, dict[bytes, bytes]] = {path: {} for path in paths}
    for path, name, value in zip(words, words, words, strict=False):
        attributes[_text(path)][name] = value
    converts = (git.config("core.autocrlf") or "").lower() in ("true", "yes", "on", "1", "input")
    rules = {}
    for place, found in attributes.items():
        rule = _Rule(_text_rule(found, "auto" if converts else ""), found[b"filter"] == b"lfs")
        if rule.text or rule.lfs:
            rules[place] = rule
    return rules


def _text_rule(attributes: dict[bytes, bytes], automatic: str) -> str:
    """Give "text", "auto" or "" by git's precedence: text, the older crlf, eol, then the configuration."""
    known = {b"set": "text", b"unset": "", b"input": "text", b"auto": "auto"}
    for name in (b"text", b"crlf"):
        if attributes[name] in known:
            return known[attributes[name]]
    return "text" if attributes[b"eol"] in (b"lf", b"crlf") else automatic


def _is_folder(root: bytes, path: bytes) -> bool:
    """Say whether a path beneath the root is a directory that is reached through directories alone."""
    here = root
    for part in path.split(b"/") if path else ():
        # Only a forged index has such parts, which lead out of the root, or to credentials.
        if part in (b"", b".", b"..") or part.lower() == b".git":
            return False
        here = os.path.join(here, part)  # noqa: PTH118
        try:
            if not stat.S_ISDIR(os.lstat(here).st_mode):
                return False
        except OSError:
            return False
    return True


def _read_beneath(root: bytes, path: bytes) -> bytes:
    """Read a regular file without following a symlink anywhere beneath the root. Raises OSError."""
    *folders, name = path.split(b"/")
    beneath = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, beneath | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        # Without O_NONBLOCK a pipe that has taken the file's place would be waited for.
        file = os.open(name, beneath | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    with open(file, "rb") as stream:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "it is not a regular file any more")
        return stream.read()


class Repository:
    """A git repository that is read and nothing else. Use it in a ``with`` statement, or close it.

    ``root`` is the working tree's top directory, None when the repository is bare.
    """

    def __init__(self, git: _Git, git_dir: Path, root: Path | None) -> None:
        self.root = root
        self.git_dir = git_dir
        self._git = git
        self._objects = _Objects(git)

    @classmethod
    def discover(cls, start: Path) -> Repository:
        """Find the repository that git would use in ``start``, GIT_DIR and GIT_WORK_TREE included.

        Raises UsageError where there is none, or where git refuses it because somebody else owns it.
        """
        if not start.is_dir():
            raise UsageError(f"{start} is not a directory.")
        git = _Git(start)
        found = git.run("rev-parse", "--absolute-git-dir")
        if found.status:
            raise _undiscovered(start, found)
        git_dir = Path(found.line)
        top = git.run("rev-parse", "--show-toplevel")
        bare = git.run("rev-parse", "--is-bare-repository").line == "true"
        root = None if bare or top.status or not top.line else Path(top.line)
        git = _Git(root or start)
        # From here on the answer is fixed: a directory that changes under us leads nowhere else.
        git.pin(GIT_DIR=str(git_dir), **({"GIT_WORK_TREE": str(root)} if root else {}))
        return cls(git, git_dir, root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that read objects. The trees that were resolved can no longer be read."""
        self._objects.close()

    def resolve(self, spec: str) -> GitTree | WorktreeTree:
        """Turn a ref into its tree: anything git resolves to a commit or a tree, ``A...B``, or ``WORKTREE``.

        A branch that only a remote has can be given by its short name. Raises UsageError when there is no
        such ref, with what was probably meant, or the command that fetches what a shallow clone left out.
        """
        if spec == WORKTREE:
            if self.root is None:
                raise UsageError(
                    f"{WORKTREE} needs a working tree, and {self.git_dir} has none here: give another ref."
                )
            return WorktreeTree(self.root, self._git, self._objects)
        sides = _sides(spec)
        if sides:
            return self._tree(spec, spec, self.merge_base(*sides))
        return self._tree(spec, *self._lookup(spec))

    def merge_base(self, a: str, b: str) -> str:
        """Give the full SHA of the commit at which two refs parted. WORKTREE stands on HEAD.

        Raises UsageError when they share none, or none that this clone has.
        """
        result = self._git.run("merge-base", self._commit(a), self._commit(b))
        if result.status == 0:
            return result.line
        if result.status != 1:
            raise EnvironmentFailure(f"`git merge-base` failed: {result.complaint}.{self._git.advice()}")
        sentence = f"{_quoted(a)} and {_quoted(b)} have no merge base"
        if self.is_shallow():
            raise UsageError(f"{sentence} in this shallow clone: {self._unshallow()}.")
        raise UsageError(f"{sentence}: they share no history, so give the two refs as BASE and HEAD instead.")

    def default_base(self) -> str:
        """Give the ref that BASE means when it is left out, as ``BRANCH...HEAD``: their merge base.

        The branch is the remote's default one, else the first of main, master, trunk and init.defaultBranch.
        Raises UsageError when there is none, or when it shares no history with HEAD.
        """
        self._lookup("HEAD")
        for branch in self._default_branches():
            if self._find(branch):
                self.merge_base(branch, "HEAD")
                return f"{branch}...HEAD"
        tried = ", ".join(["the remote's HEAD", *_DEFAULT_BRANCHES, "init.defaultBranch"])
        advice = f"this clone is shallow, so {self._unshallow()}" if self.is_shallow() else "give BASE"
        raise UsageError(f"No default branch was found to compare with (tried {tried}): {advice}.")

    def is_shallow(self) -> bool:
        """Say whether this clone lacks history that its remote has."""
        return self._git.run("rev-parse", "--is-shallow-repository").line == "true"

    def history(self, base: str, head: str) -> list[str]:
        """Give the full SHAs of the commits after ``base`` up to ``head``, oldest first, by first parents."""
        ends = f"{self._commit(base)}..{self._commit(head)}"
        return self._git.read("rev-list", "--first-parent", "--reverse", ends).decode("ascii").split()

    def _commit(self, spec: str) -> str:
        """Give the commit that a ref names, for its history; WORKTREE stands on HEAD."""
        _, found = self._lookup("HEAD" if spec == WORKTREE else spec, history=True)
        commit = self._peel(found, "commit")
        if commit is None:
            raise UsageError(f"{_quoted(spec)} is not a commit, so it has no history.")
        return commit

    def _tree(self, spec: str, name: str, found: str) -> GitTree:
        commit = self._peel(found, "commit")
        tree = self._peel(commit or found, "tree")
        if tree is None:
            kind = self._git.run("cat-file", "-t", found)
            if kind.line == "blob":
                raise UsageError(f"{_quoted(spec)} is a file; a ref has to be a commit or a folder.")
            what = f"{_quoted(spec)} cannot be read: {kind.complaint}."
            raise EnvironmentFailure(what + self._git.advice(kind.stderr))
        short = commit[:_ABBREVIATED] if commit else f"tree {tree[:_ABBREVIATED]}"
        if _sides(spec):
            label = f"{name} (merge base {short})"
        elif _SHA.fullmatch(name) and (commit or tree).startswith(name.lower()):
            label = short
        else:
            label = f"{name} ({short})"
        return GitTree(ResolvedRef(spec, commit, printable(label)), tree, self._git, self._objects)

    def _peel(self, found: str, kind: str) -> str | None:
        result = self._git.run("rev-parse", "--verify", "--quiet", f"{found}^{{{kind}}}")
        return None if result.status else result.line

    def _lookup(self, spec: str, history: bool = False) -> tuple[str, str]:
        """Give the name by which git knows a ref, and its object. ``history`` says that it is wanted too."""
        _refuse_nonsense(spec)
        found = self._find(spec)
        if found is None:
            raise self._unknown(spec, history)
        return found

    def _find(self, spec: str) -> tuple[str, str] | None:
        result = self._rev_parse(spec)
        if result.status == 0:
            if "is ambiguous" in result.stderr:
                self._refuse_ambiguous_name(spec)
            return re.sub(r"^refs/(heads|tags|remotes)/", "", spec), result.line
        name, rest = _split(spec)
        if self._is_ambiguous_sha(result):
            raise self._ambiguous_sha(name)
        if name in ("HEAD", "@") or (rest and self._rev_parse(name).status == 0):
            return None  # the name is known here, so a remote's branch of that name is not what was meant
        found = {}
        for remote in self._git.remotes():
            result = self._rev_parse(f"refs/remotes/{remote}/{spec}")
            if result.status == 0:
                found[f"{remote}/{spec}"] = result.line
        if len(set(found.values())) > 1 and f"origin/{spec}" not in found:
            raise UsageError(f"{_quoted(spec)} is on several remotes: give {_listed(found)}.")
        return next(iter(found.items()), None)

    def _rev_parse(self, spec: str) -> _Result:
        # A commit is tried first, so that a short SHA that also begins a blob's is not ambiguous. After a
        # colon everything is a path.
        if ":" not in spec:
            result = self._git.run("rev-parse", "--verify", f"{spec}^{{commit}}")
            if result.status == 0 or self._is_ambiguous_sha(result):
                return result
        result = self._git.run("rev-parse", "--verify", spec)
        if result.status == 0 and self._git.run("cat-file", "-e", result.line).status:
            return result._replace(status=128)  # git takes a full SHA at its word
        return result

    @staticmethod
    def _is_ambiguous_sha(result: _Result) -> bool:
        return bool(result.status) and re.search(r"short .* is ambiguous", result.stderr) is not None

    def _ambiguous_sha(self, prefix: str) -> UsageError:
        found = self._git.run("rev-parse", f"--disambiguate={prefix}").stdout.decode("ascii", "replace")
        names = _listed(sorted(found.split()))
        return UsageError(f"{_quoted(prefix)} is how several SHAs begin: give more digits of {names}.")

    def _refuse_ambiguous_name(self, spec: str) -> None:
        """Refuse a name that is, say, both a branch and a tag of different commits; git would pick one."""
        name, _ = _split(spec)
        found = {}
        for prefix in ("tags/", "heads/", "remotes/"):
            result = self._git.run("rev-parse", "--verify", "--quiet", f"refs/{prefix}{name}^{{}}")
            if result.status == 0:
                found[prefix + name] = result.line
        if len(set(found.values())) > 1:
            raise UsageError(f"{_quoted(name)} is the name of several refs: give {_listed(found)}.")

    def _unknown(self, spec: str, history: bool) -> UsageError:
        """Say why a ref was not found, and what to do."""
        name, rest = _split(spec)
        shown = _quoted(spec)
        names = self._names()
        if self._rev_parse("HEAD").status and (name in ("HEAD", "@") or not names):
            return UsageError(f"{shown} does not exist, since nothing is committed yet: commit first.")
        if rest and self._find(name):
            if rest.startswith(":"):
                return UsageError(f"{_quoted(name)} has no folder {_quoted(rest[1:])}.")
            if self.is_shallow():
                return UsageError(f"{shown} is cut off, because this clone is shallow: {self._unshallow()}.")
            return UsageError(f"{_quoted(name)} exists, but git finds no {shown} from there.")
        near = [names[key] for key in difflib.get_close_matches(name.lower(), names, n=3)]
        meant = f" Did you mean {_listed(near)}?" if near else ""
        if self.is_shallow():
            fetch = self._unshallow() if history else self._fetch(name)
            where = f"{shown} is not in this shallow clone"
            return UsageError(f"{where}: if the remote has it, {fetch}.{meant}")
        if not meant:
            meant = " `git branch --all` and `git tag` list what there is."
        return UsageError(f"{shown} is no branch, tag or commit of this repository.{meant}")

    def _names(self) -> dict[str, str]:
        """Give the branches and tags by their names in lower case, a remote's by their short names too."""
        names: dict[str, str] = {}
        for ref in _text(self._git.run("for-each-ref", "--format=%(refname)").stdout).splitlines():
            kind, _, short = ref.removeprefix("refs/").partition("/")
            if kind in ("heads", "tags", "remotes"):
                names.setdefault(short.lower(), short)
            if kind == "remotes":
                branch = short.partition("/")[2]
                names.setdefault(branch.lower(), branch)
        return names

    def _default_branches(self) -> Iterator[str]:
        for remote in self._git.remotes():
            head = self._git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
            if head.status == 0:
                yield head.line.removeprefix("refs/remotes/")
        yield from _DEFAULT_BRANCHES
        configured = self._git.config("init.defaultBranch")
        if configured and not configured.startswith(("-", "^")):
            yield configured

    def _unshallow(self) -> str:
        """Name the command that fetches the whole history of every branch, and of a detached HEAD."""
        remote = self._remote()
        words = [remote, f"+refs/heads/*:refs/remotes/{remote}/*"]
        if self._git.run("symbolic-ref", "--quiet", "HEAD").status:
            words.append(self._rev_parse("HEAD").line)
        command = printable(shlex.join(words))
        return f"run `git fetch --unshallow {command}` (in GitHub Actions, check out with `fetch-depth: 0`)"

    def _fetch(self, name: str) -> str:
        """Name the command that fetches one ref into a shallow clone."""
        remote = self._remote()
        if _SHA.fullmatch(name) and not _FULL_SHA.fullmatch(name):
            return self._unshallow()
        if _FULL_SHA.fullmatch(name):
            refspec = name
        elif name.startswith("refs/tags/"):
            refspec = f"{name}:{name}"
        else:
            branch = re.sub(rf"^(refs/heads/|(refs/remotes/)?{re.escape(remote)}/)", "", name)
            refspec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        return f"run `git fetch --depth=1 {printable(shlex.join([remote, refspec]))}`"

    def _remote(self) -> str:
        return next(iter(self._git.remotes()), "origin")


def _undiscovered(start: Path, result: _Result) -> Exception:
    """Say why git found no repository, or refused the one that it found."""
    if "dubious ownership" in result.stderr:
        match = re.search(r"git config --global --add safe\.directory .*", result.stderr)
        command = printable(match[0].strip()) if match else "git config --global --add safe.directory PATH"
        return UsageError(
            f"Git refuses the repository at {start}, as another user owns it: to trust it, run `{command}`."
        )
    if "not a git repository" in result.stderr:
        return UsageError(f"{start} is not in a git repository: run refcompare inside one.")
    return EnvironmentFailure(f"Git cannot use the repository at {start}: {result.complaint}.")


def _refuse_nonsense(spec: str) -> None:
    """Refuse what git would take for an option, a negation or a range."""
    if not spec or "\0" in spec or spec.startswith(("-", "^")):
        raise UsageError(f"{_quoted(spec)} is not a ref: give a branch, a tag, a SHA, A...B or {WORKTREE}.")
    if ".." in spec.partition(":")[0]:
        raise UsageError(
            f"{_quoted(spec)} is a range, not a ref: give BASE and HEAD as two words, or A...B (merge base)."
        )


def _sides(spec: str) -> tuple[str, str] | None:
    """Give the two refs of ``A...B``, HEAD where one is left out."""
    left, dots, right = spec.partition("...")
    if not dots or ":" in left:
        return None
    return left or "HEAD", right or "HEAD"


def _split(spec: str) -> tuple[str, str]:
    match = _NAME_AND_REST.fullmatch(spec)
    assert match is not None
    return match["name"], match["rest"] or ""


def _tree_files(entries: dict[str, _Entry]) -> Iterator[TreeFile]:
    return (TreeFile(path, entry.size, entry.executable) for path, entry in entries.items())


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    """Give text that is safe to print, whatever a repository put in it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _quoted(spec: str) -> str:
    return f"'{printable(spec)}'"


def _listed(names: Iterable[str]) -> str:
    shown = [printable(name) for name in names][:6]
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
