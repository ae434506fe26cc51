"""The process of a pod, really run, and what it writes of itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedq.drill.judge import stale
from fedq.drill.records import PAUSE, Kind, Record, parse
from fedq.drill.runs import runs
from fedq.rig.pods import process
from fedq.rig.pods.handle import KILLED, Handle
from fedq.rig.pods.keeper import stop
from fedq.rig.pods.plan import Plan
from fedq.rig.waiting import wait_until

ABOUT = {"job": "j", "attempt": 2, "pod": "p", "cluster": "w"}
PATIENCE = 10.0


def plan(seconds: float = 60, *, code: int = 0, stop: str = "0") -> Plan:
    return Plan("p", "ns/p", {"FEDQ_ATTEMPT": "2"}, ABOUT, seconds, code, stop)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "p.jsonl"


@pytest.fixture
def started(file: Path) -> Iterator[list[Handle]]:
    """Processes to end, whatever the test did to them."""
    found: list[Handle] = []
    yield found
    for handle in found:
        handle.kill()


async def start(started: list[Handle], file: Path, made: Plan) -> Handle:
    handle = await Handle.start(made, file, "test:pods/w")
    started.append(handle)
    assert Handle.find(file) == handle
    return handle


def history(file: Path) -> list[Record]:
    return list(parse(file.read_bytes(), file.name))


async def ended(handle: Handle) -> int:
    await asyncio.wait_for(handle.gone(), PATIENCE)
    return handle.exit_code()


async def test_it_runs_for_its_time_and_ends_with_its_code(
    started: list[Handle], file: Path
) -> None:
    """Start, heartbeats, stop."""
    handle = await start(started, file, plan(1.2, code=7))
    began = process.boottime()

    assert await ended(handle) == 7
    kinds = [record.kind for record in history(file)]
    assert kinds[0] is Kind.START
    assert kinds[-1] is Kind.STOP
    assert kinds.count(Kind.ALIVE) >= 2
    [run] = runs(history(file), process.boottime())
    assert 1.2 <= run.seconds < process.boottime() - began + 1
    assert (run.subject.attempt, run.exit, run.subject.policy) == (2, 7, "stop")


async def test_it_ends_on_sigterm(started: list[Handle], file: Path) -> None:
    """And says that it was told to."""
    handle = await start(started, file, plan())
    handle.terminate()

    assert await ended(handle) == 143
    assert [record.kind for record in history(file)][-3:] == [Kind.TERM, Kind.ALIVE, Kind.STOP]


async def test_it_can_take_its_time_to_end(started: list[Handle], file: Path) -> None:
    """A second SIGTERM makes it no faster and no slower."""
    handle = await start(started, file, plan(stop="0.8"))
    handle.terminate()
    await asyncio.sleep(0.3)  # the second comes while the first is being obeyed
    handle.terminate()
    await ended(handle)
    records = history(file)

    first = next(record.at for record in records if record.kind is Kind.TERM)
    assert 0.8 <= records[-1].at - first < 0.8 + PAUSE


async def test_what_ignores_sigterm_ends_by_sigkill_and_somebody_notes_it(
    started: list[Handle], file: Path
) -> None:
    """Its last heartbeat is the last that is known of it."""
    handle = await start(started, file, plan(stop=process.NEVER))
    handle.terminate()
    assert wait_until(lambda: b'"term"' in file.read_bytes(), PATIENCE)
    assert handle.alive
    handle.kill()

    assert await ended(handle) == KILLED
    assert handle.exit_code() == KILLED
    assert [record.kind for record in history(file)].count(Kind.GONE) == 1


@pytest.mark.parametrize(("ending", "code"), [(process.NEVER, KILLED), ("0.2", 143)])
async def test_it_is_stopped_as_a_kubelet_stops_it(
    started: list[Handle], file: Path, ending: str, code: int
) -> None:
    """SIGTERM, and SIGKILL when its grace is over."""
    handle = await start(started, file, plan(stop=ending))
    await asyncio.wait_for(stop(handle, 1.0, asyncio.create_task(handle.gone())), PATIENCE)

    assert handle.exit_code() == code
    records = history(file)
    term = next(record.at for record in records if record.kind is Kind.TERM)
    assert records[-1].at - term >= (1.0 if code == KILLED else 0.2) - 0.05


async def test_the_time_in_which_it_stood_still_is_noted_and_made_up_for(
    started: list[Handle], file: Path
) -> None:
    """By the process itself, as soon as it goes on."""
    handle = await start(started, file, plan(3.0))
    stand_still(handle, PAUSE + 0.7)

    assert await ended(handle) == 0
    [paused] = [record for record in history(file) if record.kind is Kind.PAUSED]
    assert paused.at - paused.since >= PAUSE
    [run] = runs(history(file), process.boottime())
    assert run.end - run.start >= 3.0 + PAUSE
    assert 2.9 <= run.seconds < 4.0


def stand_still(handle: Handle, seconds: float) -> None:
    """SIGSTOP, and SIGCONT after `seconds`."""
    os.kill(handle.pid, signal.SIGSTOP)
    time.sleep(seconds)  # how long the fault lasts
    os.kill(handle.pid, signal.SIGCONT)


async def test_a_pod_never_has_two_processes(started: list[Handle], file: Path) -> None:
    """The second one gives up before it writes anything."""
    handle = await start(started, file, plan())
    second = await Handle.start(plan(), file, "test:pods/w")
    await asyncio.wait_for(second.gone(), PATIENCE)

    assert handle.alive
    assert [record.kind for record in history(file)].count(Kind.START) == 1
    assert Handle.find(file) == handle


async def test_it_outlives_whoever_started_it_and_is_found_again(
    file: Path, started: list[Handle]
) -> None:
    """With nothing but its file."""
    code = (
        "import asyncio, sys; from pathlib import Path; from fedq.rig.pods.handle import Handle;"
        "from fedq.rig.pods.plan import Plan;"
        f"plan = Plan('p', 'ns/p', {{}}, {ABOUT!r}, 60, 0, '0');"
        "asyncio.run(Handle.start(plan, Path(sys.argv[1]), 'test:pods/w'))"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(file))
    assert await parent.wait() == 0
    handle = Handle.find(file)
    assert handle is not None
    started.append(handle)

    assert handle.alive
    handle.terminate()
    assert await ended(handle) == 143


async def test_of_a_process_that_never_wrote_anything_nothing_is_noted(file: Path) -> None:
    """It was killed before it began."""
    assert Handle(2**22 + 1, 1, file).exit_code() == KILLED
    await Handle(2**22 + 1, 1, file).gone()
    assert Handle.find(file) is None


async def test_what_it_commits_is_refused_once_a_later_attempt_has_claimed_the_token(
    started: list[Handle], tmp_path: Path
) -> None:
    """It says so and goes on; the later one commits."""
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    env = {"FEDQ_CHECKPOINTS": str(tmp_path / "store"), "FEDQ_JOB_UID": "j"}

    def attempt(number: int) -> Plan:
        about = {**ABOUT, "attempt": number}
        return Plan("p", "ns/p", {**env, "FEDQ_ATTEMPT": str(number)}, about, 60, 0, "0")

    def kinds(file: Path) -> list[Kind]:
        return [record.kind for record in history(file)]

    first = await start(started, old, attempt(1))
    assert await asyncio.to_thread(wait_until, lambda: Kind.COMMITTED in kinds(old), PATIENCE)
    await start(started, new, attempt(2))
    assert await asyncio.to_thread(wait_until, lambda: Kind.COMMITTED in kinds(new), PATIENCE)
    assert await asyncio.to_thread(wait_until, lambda: Kind.REFUSED in kinds(old), PATIENCE)
    assert first.alive
    records = [*history(old), *history(new)]
    assert not stale(records, Kind.COMMITTED)
    assert {record.subject.attempt for record in stale(records, Kind.REFUSED)} == {1}
