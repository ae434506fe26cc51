"""The process that drives Ray, played by a small program: calls, its end, and what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from federation.edge.machine import boot_id
from manager import ray_process, sessions
from manager.protocol import ClusterSpec, WorkerUnavailable
from manager.ray_process import RayProcess, RaySettings, end_leftovers, open_ray
from tests.unit.manager.support import until

DRIVER = """
import asyncio, socket, subprocess, sys
from manager.frames import receive, send

async def main():
    orphan = ["sh", "-c", "sleep 1000 >/dev/null & echo $!"]
    child = int(subprocess.run(orphan, stdout=subprocess.PIPE).stdout)
    sock = socket.socket(fileno=int(sys.argv[1]))
    reader, writer = await asyncio.open_connection(sock=sock)
    send(writer, (0, sys.argv[2], None))
    while True:
        try:
            number, method, arguments = await receive(reader)
        except EOFError:
            break
        if method == "poll":
            send(writer, (number, "RayActorError: it died", None))
        elif method == "apply":
            send(writer, (number, "", [child]))
        elif method != "hang":
            send(writer, (number, "", ""))

asyncio.run(main())
"""
SPEC = ClusterSpec("a", b"", "o")


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_process, "PROGRAM", DRIVER)


@pytest.fixture
async def ray(tmp_path: Path) -> AsyncIterator[RayProcess]:
    found = await open_ray(RaySettings("", tmp_path))
    yield found
    await found.aclose()


def records(folder: Path) -> list[Path]:
    """Of drivers that somebody may have to end."""
    return list(folder.glob("driver-*"))


async def orphan(ray: RayProcess) -> int:
    """A process whose parent, a child of the driver, has ended."""
    handle = await ray.start(SPEC)
    return int((await handle.apply([]))[0])  # type: ignore[call-overload]


async def test_answers_and_errors(ray: RayProcess) -> None:
    handle = await ray.start(SPEC)
    assert await ray.check() == ""
    with pytest.raises(WorkerUnavailable, match="RayActorError: it died"):
        await handle.poll("", -1)


async def test_a_driver_that_dies_leaves_no_caller_waiting(ray: RayProcess) -> None:
    waiting = asyncio.create_task(ray.call("hang"))
    await asyncio.sleep(0)
    os.kill(ray._process.pid, signal.SIGKILL)
    with pytest.raises(WorkerUnavailable, match="has ended"):
        await waiting
    assert "has ended" in await ray.check()
    with pytest.raises(WorkerUnavailable, match="has ended"):
        await ray.start(SPEC)


async def test_a_driver_that_hangs_is_found_out(
    ray: RayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_process, "CHECK_S", 0.2)
    os.kill(ray._process.pid, signal.SIGSTOP)
    assert "not answered for" in await ray.check()
    with pytest.raises(WorkerUnavailable, match="no actor"):
        await ray.start(SPEC)


async def test_all_that_it_started_ends_with_it(tmp_path: Path) -> None:
    """Whether it hangs or not, and whoever their parent is now."""
    ray = await open_ray(RaySettings("", tmp_path))
    left = await orphan(ray)
    assert sessions.process(left) is not None
    os.kill(ray._process.pid, signal.SIGSTOP)
    await ray.aclose()
    await until(lambda: sessions.process(left) is None, "the orphan is gone")
    assert sessions.members(ray._process.pid) == []
    assert not records(tmp_path)


async def test_ray_that_cannot_be_had(tmp_path: Path) -> None:
    """The reason arrives, and nothing is left."""
    with pytest.raises(WorkerUnavailable, match="no room"):
        await open_ray(RaySettings("no room", tmp_path))
    assert not records(tmp_path)


async def test_ray_elsewhere_is_left_in_peace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that takes its leave is not killed; of one that hangs the leash is waited for."""
    monkeypatch.setattr(ray_process, "LEASH_S", 0.3)
    monkeypatch.setattr(ray_process, "LEAVE_S", 5.0)
    loop = asyncio.get_running_loop()
    for stops, least in ((False, 0.0), (True, 0.5)):
        ray = await open_ray(RaySettings("", tmp_path))
        ray._settings = RaySettings("ray.example:6379", tmp_path)
        await ray.start(SPEC)
        if stops:
            monkeypatch.setattr(ray_process, "LEAVE_S", 0.2)
            os.kill(ray._process.pid, signal.SIGSTOP)
        began = loop.time()
        await ray.aclose()
        assert loop.time() - began >= least
        assert ray._process.returncode == (-signal.SIGKILL if stops else 0)


async def test_what_a_killed_manager_left_is_ended(tmp_path: Path) -> None:
    """Its record names an owner that is gone; that of a manager that lives is left alone."""
    ray = await open_ray(RaySettings("", tmp_path))
    left = await orphan(ray)
    end_leftovers(tmp_path)
    assert sessions.process(left) is not None

    [record] = records(tmp_path)
    known = json.loads(record.read_text())
    known["owner"][3] -= 1  # started earlier: another process that had this pid
    record.write_text(json.dumps(known))
    end_leftovers(tmp_path)
    await until(lambda: sessions.process(left) is None, "the orphan is gone")
    assert not record.exists()
    await ray.aclose()


def test_a_pid_in_other_hands_is_left_alone(tmp_path: Path) -> None:
    """So is everything that was recorded under another boot."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        found = sessions.process(stranger.pid)
        assert found is not None
        dead = sessions.Process(2**22, "manager", 1, 1)
        other = found._replace(started=found.started - 1)
        boot = boot_id()
        for number, (driver, of) in enumerate([(other, boot), (found, "another boot")]):
            body = {"boot": of, "owner": dead, "driver": driver}
            (tmp_path / f"driver-{number}.json").write_text(json.dumps(body))
        (tmp_path / "driver-broken.json").write_text("{")
        end_leftovers(tmp_path)
        assert sessions.process(stranger.pid) == found
        assert not records(tmp_path)
        stranger.communicate(b"\n")


async def test_folders_of_old_sessions_are_removed(tmp_path: Path) -> None:
    """The last ones are kept, and those of drivers that live."""
    own = f"session_2026-01-01_00-00-00_000000_{os.getpid()}"
    names = [own, *(f"session_2026-01-0{n}_00-00-00_000000_{2**22}" for n in range(2, 9))]
    for name in [*names, "session_latest"]:
        make_folder(tmp_path / name / "logs")
    ray = await open_ray(RaySettings("", tmp_path))
    await ray.aclose()
    assert folders(tmp_path) == sorted([own, *names[-5:], "session_latest"])


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def folders(path: Path) -> list[str]:
    return sorted(found.name for found in path.glob("session_*"))
