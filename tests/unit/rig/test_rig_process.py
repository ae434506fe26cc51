"""Processes by identity: none is ever signalled that is not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedq.rig.errors import RigError
from fedq.rig.process import Process, marked, start_time, terminate
from fedq.rig.state import Home
from fedq.rig.supervisor import Spec, Supervisor
from fedq.rig.waiting import wait_until

SLEEP = ("sleep", "60")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A folder for one rig."""
    return Home(tmp_path / "rig")


@pytest.fixture
def supervisor(home: Home) -> Iterator[Supervisor]:
    """Its supervisor; whatever a test leaves running ends with the test."""
    supervisor = Supervisor(home)
    yield supervisor
    supervisor.sweep()


def test_start_is_idempotent_and_survives_a_reload(home: Home, supervisor: Supervisor) -> None:
    """Another command, knowing only the folder, finds the same process."""
    process = supervisor.start(Spec("worker-1/etcd", SLEEP, env={"A": "b"}))

    assert Supervisor(home).start(Spec("worker-1/etcd", SLEEP)) == process
    assert process.running
    assert os.getsid(process.pid) == process.pid
    assert process.memory_mb > 0
    assert supervisor.names() == ["worker-1/etcd"]


def test_stop_ends_descendants_in_other_sessions_too(supervisor: Supervisor) -> None:
    """A daemonised grandchild carries the mark and goes with its ancestor."""
    script = "setsid sleep 60 & echo $!; sleep 60"
    process = supervisor.start(Spec("manager", ("sh", "-c", script)))
    assert wait_until(lambda: process.tail().strip().isdigit(), 5)
    grandchild = int(process.tail())

    supervisor.stop(["manager"])

    assert not process.running
    assert start_time(grandchild) is None
    assert supervisor.find("manager") is None


def test_reused_pid_is_neither_running_nor_killed(home: Home, supervisor: Supervisor) -> None:
    """A record whose pid now belongs to another process leaves that process alone."""
    stranger = subprocess.Popen(SLEEP)
    started = start_time(stranger.pid)
    assert started is not None
    process = supervisor.start(Spec("manager", SLEEP))
    stale = replace(process, pid=stranger.pid, started=started - 1)
    stale.save(home.record("old"))

    stale.kill(signal.SIGKILL)
    supervisor.stop(["old"])

    assert not stale.running
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_process_of_an_earlier_boot_is_gone(supervisor: Supervisor) -> None:
    """The same pid and ticks after a reboot are another process."""
    process = supervisor.start(Spec("manager", SLEEP))

    assert not replace(process, boot="earlier").running


def test_unrecorded_process_of_an_interrupted_start_is_replaced(
    home: Home, supervisor: Supervisor
) -> None:
    """A crash between start and record leaves a process that the next start ends first."""

    def shown() -> bool:  # in the middle of its exec a process has no environment
        return [name for _, name in marked(home.path)] == ["worker-1/etcd"]

    lost = supervisor.start(Spec("worker-1/etcd", SLEEP))
    home.record("worker-1/etcd").unlink()
    assert wait_until(shown, 5)

    supervisor.start(Spec("worker-1/etcd", SLEEP), clean=True)

    assert not lost.running
    assert wait_until(shown, 5)


def test_death_while_starting_shows_the_log(supervisor: Supervisor) -> None:
    """The tail of the log says why."""
    process = supervisor.start(Spec("manager", ("sh", "-c", "echo address in use >&2; exit 1")))

    with pytest.raises(RigError, match="address in use"):
        supervisor.await_ready(process, lambda: False)


def test_missing_program_is_an_error_of_its_own(supervisor: Supervisor) -> None:
    """Nothing is recorded for what never ran."""
    with pytest.raises(RigError, match="No such file"):
        supervisor.start(Spec("manager", ("/nonexistent/program",)))
    assert supervisor.names() == []


def test_terminate_kills_what_ignores_sigterm() -> None:
    """SIGKILL follows after the grace period."""
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "
    stubborn = subprocess.Popen(
        [sys.executable, "-c", code + "signal.pause()"], stdout=subprocess.PIPE
    )
    with stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()

        terminate([stubborn.pid], grace=0.1)

        assert start_time(stubborn.pid) is None


def test_unreadable_record_counts_as_none(tmp_path: Path) -> None:
    """A half written or foreign file is not a process."""
    file = tmp_path / "x.json"
    file.write_text('{"pid": 1}')

    assert Process.read(file) is None
