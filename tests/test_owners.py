"""Whether the process that something belongs to has ended is never guessed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from refcompare.wordpress.owners import is_gone, this_process

ANOTHER = "from refcompare.wordpress.owners import this_process; print(this_process(), flush=True); input()"


def test_a_process_that_runs_is_not_gone() -> None:
    assert not is_gone(this_process())


def test_a_process_is_gone_once_it_has_ended() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ANOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    owner = process.stdout.readline().strip()
    assert not is_gone(owner)
    process.kill()
    process.stdout.read()
    if sys.platform == "linux":
        assert until_gone(owner)  # also while it is a zombie that nobody has waited for
    process.communicate()
    assert is_gone(owner)


def until_gone(owner: str) -> bool:
    return any(is_gone(owner) for _ in range(100_000))


def test_another_process_that_got_the_same_number_is_not_taken_for_it() -> None:
    machine, number, start = this_process().split("/")
    assert is_gone(f"{machine}/{number}/{start}0")


@pytest.mark.parametrize(
    "owner",
    ["", "nonsense", "elsewhere/1/1", "/1/1", f"{this_process().split('/')[0]}/x/1", "a/../b/1/"],
)
def test_nothing_is_said_of_processes_of_other_machines_or_of_nonsense(owner: str) -> None:
    assert not is_gone(owner)
