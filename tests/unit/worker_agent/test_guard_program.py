"""The guard as a program, with faults: stopped, killed and started anew, without its file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from federation.edge.machine import boot_id, boottime
from tests.unit.worker_agent.guarded import Pod, wait_for
from worker_agent.guard.__main__ import main

MARK = "GUARD_TEST"


class Node:
    """One guard, its files, and a run."""

    def __init__(self, folder: Path) -> None:
        self.deadline_file, self.status_file = folder / "deadline", folder / "guard" / "status"
        self.mark = uuid.uuid4().hex
        env = {MARK: self.mark, "FEDQ_JOB_UID": "j", "FEDQ_ATTEMPT": "1"}
        self.pod = Pod("sleeps", env)
        self.guards: list[subprocess.Popen[bytes]] = []

    def write(self, left: float, boot: str = "") -> float:
        """The agent renewed: the lease holds for so many seconds. Returns until when."""
        now = boottime()
        deadline = now + left
        body = {"renewed": now, "deadline": deadline, "epoch": 1, "cluster": "w"}
        body["bootId"] = boot or boot_id()
        fresh = self.deadline_file.with_name("fresh")
        fresh.write_text(json.dumps(body))
        fresh.replace(self.deadline_file)
        return deadline

    def guard(self, **more: str) -> subprocess.Popen[bytes]:
        """Start it, and wait for its first look."""
        settings = {
            "DEADLINE_FILE": str(self.deadline_file),
            "STATUS_FILE": str(self.status_file),
            "ONLY": f"{MARK}={self.mark}",
            "CLUSTER": "w",
            "LEAD": "0",
            **more,
        }
        env = {**os.environ, **{f"FEDQ_GUARD_{key}": value for key, value in settings.items()}}
        started = boottime()
        guard = subprocess.Popen([sys.executable, "-m", "worker_agent.guard"], env=env)
        self.guards.append(guard)
        wait_for(lambda: self.status().get("at", 0) > started)
        return guard

    def status(self) -> dict[str, Any]:
        """What the guard notes of itself."""
        try:
            return dict(json.loads(self.status_file.read_text()))
        except OSError:
            return {}

    def hears_of(self, deadline: float) -> None:
        """Wait until the guard knows that the lease holds until then."""
        wait_for(lambda: self.status().get("deadline") == deadline)

    def end(self) -> None:
        for guard in self.guards:
            guard.kill()
            guard.wait()
        self.pod.end()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.end()


def stopped_at(node: Node) -> float:
    """When the run was found to be gone."""
    wait_for(lambda: not node.pod.alive(), 15)
    return boottime()


def test_the_run_ends_at_the_deadline(node: Node) -> None:
    """Not before it, and within a tick after it; renewals move it."""
    node.guard(PATIENCE="3600")
    first = node.write(2.0)
    node.hears_of(first)
    deadline = node.write(4.0)
    time.sleep(max(0.0, first + 0.5 - boottime()))  # until the first deadline has passed
    assert node.pod.alive()

    assert 0 <= stopped_at(node) - deadline < 2
    wait_for(lambda: node.status()["ended"] == 1)
    assert node.status()["state"] == "over"


def test_a_guard_that_stood_still_acts_as_soon_as_it_goes_on(node: Node) -> None:
    """The clock went on: the deadline passed meanwhile."""
    guard = node.guard(PATIENCE="3600")
    deadline = node.write(3.0)
    node.hears_of(deadline)
    guard.send_signal(signal.SIGSTOP)
    time.sleep(max(0.0, deadline + 1.5 - boottime()))  # the fault lasts beyond the deadline
    assert node.pod.alive()
    guard.send_signal(signal.SIGCONT)
    resumed = boottime()

    assert stopped_at(node) - resumed < 2


def test_a_guard_that_was_killed_knows_the_deadline_when_it_starts_again(node: Node) -> None:
    """From its own note: the agent's file is gone."""
    deadline = node.write(8.0)
    node.guard().kill()
    node.deadline_file.unlink()
    node.guard(PATIENCE="3600")
    assert node.status()["deadline"] == deadline

    assert 0 <= stopped_at(node) - deadline < 2


def test_without_any_notice_it_waits_for_a_while(node: Node) -> None:
    """And says that it knows of none."""
    began = boottime()
    node.guard(PATIENCE="2")

    assert stopped_at(node) - began >= 2
    assert node.status()["problems"] == [f"{node.deadline_file} is not there"]


def test_a_guard_that_starts_again_and_again_waits_no_longer(node: Node) -> None:
    """Its patience counts from the first start since the machine started."""
    began = boottime()
    node.guard(PATIENCE="3").kill()
    time.sleep(2)  # part of that time
    node.guard(PATIENCE="3")

    assert 3 <= stopped_at(node) - began < 4.8


def test_a_notice_from_before_the_machine_started_is_worth_little(node: Node) -> None:
    """That lease may have ended while the machine was off."""
    node.write(3600, boot="another")
    node.guard(PATIENCE="1.5")
    stopped_at(node)


def test_an_agent_that_renews_keeps_the_run_alive(node: Node) -> None:
    """A guard that knew of nothing at first, too."""
    node.guard(PATIENCE="2")
    deadline = node.write(3600)
    time.sleep(2.5)  # beyond the patience of the guard

    assert node.pod.alive()
    assert (node.status()["state"], node.status()["deadline"]) == ("holds", deadline)


def test_it_ends_when_it_is_told_to(node: Node) -> None:
    """With exit code 0, at once."""
    node.write(3600)
    guard = node.guard()
    guard.terminate()

    assert guard.wait(5) == 0
    assert node.pod.alive()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "DEADLINE_FILE"),
        ({"DEADLINE_FILE": "/x", "KILL": "6"}, "leave a run no time"),
        ({"DEADLINE_URL": "ftp://x"}, "no http"),
        ({"DEADLINE_FILE": "/x", "TICK": "0"}, "greater than 0"),
        ({"DEADLINE_FILE": "/x", "TICK": "60"}, "less than or equal to 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    settings: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the reason."""
    for key, value in settings.items():
        monkeypatch.setenv(f"FEDQ_GUARD_{key}", value)

    assert main() == 2
    assert said in capsys.readouterr().err
