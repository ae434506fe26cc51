"""Wall clocks that jump while a process runs."""

from __future__ import annotations

import glob
import json
import signal
import sys
import time
from typing import NamedTuple

import pytest

from fedq.drill.faults import clocks
from fedq.rig.errors import RigError
from fedq.rig.process import Process
from fedq.rig.rig import Rig
from fedq.rig.waiting import wait_until

PATIENCE = 10.0
CODE = """
import json, os, signal, time
names = ("CLOCK_REALTIME", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC")
def tell(*_):
    times = [time.clock_gettime(getattr(time, name)) for name in names]
    print(json.dumps([os.getpid(), *times, os.stat("/").st_mtime]), flush=True)
signal.signal(signal.SIGUSR1, tell)
tell()
while True:
    signal.pause()
"""
"""Tells its clocks at its start and on SIGUSR1, and the time of a file."""


class Told(NamedTuple):
    """What it has told last."""

    pid: int
    wall: float
    boot: float
    monotonic: float
    file: float


def told(process: Process, count: int) -> Told:
    """Its last line, once it has written `count`."""

    def lines() -> list[str]:
        return [line for line in process.log.read_text().splitlines() if line.startswith("[")]

    assert wait_until(lambda: len(lines()) == count, PATIENCE), process.tail()
    return Told(*json.loads(lines()[-1]))


def left_by(pid: int) -> list[str]:
    """Files of the library for a process."""
    return [file for each in clocks.SHARED for file in glob.glob(each.replace("*", str(pid)))]


@pytest.fixture
def watch(bare: Rig) -> Process:
    """A process that tells its clocks."""
    process = bare.start_process("watch", [sys.executable, "-c", CODE], {})
    told(process, 1)
    return process


async def test_a_wall_clock_jumps_while_its_process_runs(bare: Rig, watch: Process) -> None:
    """Forward, back and back again, in the same process; the clocks by which leases are counted go
    on as before, and so do the times of files.
    """
    if not clocks.library():
        pytest.skip("libfaketime is not installed")
    async with clocks.settable(bare, "watch") as found:
        process = bare.process("watch")
        assert process is not None
        first = told(process, 2)
        assert abs(first.wall - time.time()) < 10
        for number, jump in enumerate((600, -600, 0)):
            found["watch"].set(jump)
            process.kill(signal.SIGUSR1)
            now = told(process, 3 + number)
            assert now.pid == first.pid == process.pid
            assert abs(now.wall - time.time() - jump) < 10
            assert abs(now.boot - time.clock_gettime(time.CLOCK_BOOTTIME)) < 10
            assert abs(now.monotonic - time.monotonic()) < 10
            assert now.file == first.file
    after = bare.process("watch")
    assert after is not None
    last = told(after, 6)
    assert last.pid != first.pid
    assert abs(last.wall - time.time()) < 10
    assert "LD_PRELOAD" not in after.env
    assert not left_by(first.pid)


async def test_it_takes_the_library(
    bare: Rig, watch: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nothing is stopped, and it is said what to install."""
    monkeypatch.setattr(clocks, "PLACES", ())
    with pytest.raises(RigError, match="apt-get install libfaketime"):
        async with clocks.settable(bare, "watch"):
            pass
    assert watch.running
