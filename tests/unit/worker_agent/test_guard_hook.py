"""What a container runtime asks before it starts a container, and a real one that asks."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from federation.edge.machine import boot_id, boottime
from worker_agent.guard import hook
from worker_agent.guard.decision import Knowledge, Notice
from worker_agent.guard.notices import Note, noted

ROOT = Path(__file__).parents[3]
OF_JOB = {"FEDQ_JOB_UID": "j", "FEDQ_ATTEMPT": "2"}


class Node:
    """The files of a node, and a bundle."""

    def __init__(self, folder: Path) -> None:
        self.kept, self.file, self.bundle = folder / "kept", folder / "deadline", folder / "bundle"
        self.bundle.mkdir()

    def guard_noted(
        self, knowledge: Knowledge, boot: str = "", cluster: str = "w", at: float | None = None
    ) -> None:
        at = boottime() if at is None else at
        body = {"bootId": boot or boot_id(), "cluster": cluster, "at": at, **noted(knowledge)}
        self.kept.write_text(json.dumps(body))

    def agent_noted(self, left: float, boot: str = "") -> None:
        now = boottime()
        body = {"renewed": now, "deadline": now + left, "epoch": 1, "cluster": "w"}
        self.file.write_text(json.dumps({**body, "bootId": boot or boot_id()}))

    def ask(
        self, monkeypatch: pytest.MonkeyPatch, env: Mapping[str, str], wait: float = 0.0
    ) -> int:
        config = {"process": {"env": [f"{key}={value}" for key, value in env.items()]}}
        (self.bundle / "config.json").write_text(json.dumps(config))
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"bundle": str(self.bundle)})))
        files = [f"--status-file={self.kept}", f"--deadline-file={self.file}", "--cluster=w"]
        return hook.main([*files, f"--wait={wait}"])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def heard(left: float) -> Knowledge:
    """A guard that heard of a renewal which holds for so many seconds from now."""
    now = boottime()
    return Knowledge(now - 200, 120, Notice(now - 100, now + left, 45))


def patient(left: float) -> Knowledge:
    """A guard that never heard of one, and waits for so many seconds from now."""
    return Knowledge(boottime() - 100, 100 + left)


@pytest.mark.parametrize(
    ("env", "known", "left", "may"),
    [
        ({}, heard, -5, True),
        ({"PATH": "/bin"}, heard, -5, True),
        (OF_JOB, heard, 5, True),
        (OF_JOB, heard, -5, False),
        (OF_JOB, patient, 5, True),
        (OF_JOB, patient, -5, False),
        (OF_JOB | {"ODD": "\ud800"}, heard, -5, False),
        (OF_JOB | {"FEDQ_ON_DISCONNECT": "unheard-of"}, heard, -5, False),
        (OF_JOB | {"FEDQ_ON_DISCONNECT": "keep"}, heard, -5, True),
        (OF_JOB | {"FEDQ_ON_DISCONNECT": "duplicate-ok"}, heard, -5, True),
        (OF_JOB | {"FEDQ_ON_DISCONNECT": "keep", "FEDQ_RERUN_AFTER": "300"}, heard, -5, True),
        (OF_JOB | {"FEDQ_ON_DISCONNECT": "keep", "FEDQ_RERUN_AFTER": "99"}, heard, -5, False),
    ],
)
def test_who_may_start(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    known: Callable[[float], Knowledge],
    left: float,
    may: bool,
) -> None:
    """Whom the guard would end at its next look may not."""
    node.guard_noted(known(left))

    assert node.ask(monkeypatch, env) == (0 if may else hook.REFUSED)


def test_it_says_why(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kubelet makes it an event of the pod."""
    node.guard_noted(heard(-5))
    node.ask(monkeypatch, OF_JOB)
    said = capsys.readouterr().err

    assert "attempt 2 of the job j may not start here" in said
    assert "ended 5." in said


def test_the_note_of_the_agent_is_newer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard looks once a second, the agent may have renewed since."""
    node.guard_noted(heard(-5))
    node.agent_noted(30)

    assert node.ask(monkeypatch, OF_JOB) == 0


def test_a_note_of_the_agent_from_before_the_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock means nothing any more."""
    node.guard_noted(heard(-5))
    node.agent_noted(30, boot="earlier")

    assert node.ask(monkeypatch, OF_JOB) == hook.REFUSED


@pytest.mark.parametrize("kept", ["none", "of an earlier start", "of another cluster", "nonsense"])
def test_a_guard_that_has_not_looked_yet(
    node: Node, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """It is waited for; without it nothing of the lease is known since the machine started."""
    if kept == "of an earlier start":
        node.guard_noted(heard(50), boot="earlier")
    elif kept == "of another cluster":
        node.guard_noted(heard(50), cluster="other")
    elif kept == "nonsense":
        node.kept.write_text('{"bootId": 1')
    looks = []

    def guard_starts(seconds: float) -> None:
        looks.append(seconds)
        node.guard_noted(heard(50))

    monkeypatch.setattr(time, "sleep", guard_starts)

    assert node.ask(monkeypatch, OF_JOB) == hook.REFUSED
    assert node.ask(monkeypatch, OF_JOB, wait=60) == 0
    assert looks == [hook.LOOK_S]


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"bundle": "/nowhere"}', '{"bundle": 1}'])
def test_what_is_not_understood_starts(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """A node must not fail by this program; the guard comes after it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(state))

    assert hook.main([]) == 0


@pytest.mark.parametrize("process", [None, [], {"env": None}, {"env": [1]}, {"env": "FEDQ_JOB"}])
def test_a_bundle_without_an_environment(tmp_path: Path, process: Any) -> None:
    """It is of no run."""
    (tmp_path / "config.json").write_text(json.dumps({"process": process} if process else {}))

    assert hook.run_in(tmp_path) is None


@pytest.mark.parametrize("knowledge", [heard(5), patient(5)])
def test_a_guard_notes_all_it_knows(node: Node, knowledge: Knowledge) -> None:
    """The hook reads what the guard wrote."""
    node.guard_noted(knowledge)

    assert Note(node.kept, "w").knowledge() == knowledge


def bind(source: str, destination: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "destination": destination, "options": ["rbind"]}


@pytest.mark.skipif(
    shutil.which("runc") is None or os.geteuid() != 0, reason="needs runc, and root to run it"
)
@pytest.mark.parametrize("left", [60.0, -5.0])
def test_a_container_of_a_real_runtime(node: Node, left: float) -> None:
    """runc asks the hook, and starts nothing that it refuses."""
    node.guard_noted(heard(left))
    ran = node.bundle / "ran"
    rootfs = node.bundle / "rootfs"
    rootfs.mkdir()
    for name in ("bin", "lib", "lib64"):
        (rootfs / name).symlink_to(f"usr/{name}")
    argv = ["python", "-m", "worker_agent.guard.hook", f"--status-file={node.kept}"]
    asks = {"path": sys.executable, "args": argv, "env": [f"PYTHONPATH={ROOT}"]}
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/sh", "-c", "echo > /out/ran"],
            "cwd": "/",
            "env": [f"{key}={value}" for key, value in OF_JOB.items()],
        },
        "root": {"path": "rootfs"},
        "mounts": [
            {"type": "proc", "source": "proc", "destination": "/proc"},
            bind("/usr", "/usr"),
            bind(str(node.bundle), "/out"),
        ],
        "linux": {"namespaces": [{"type": "mount"}]},
        "hooks": {"createRuntime": [asks]},
    }
    (node.bundle / "config.json").write_text(json.dumps(config))
    folder = str(node.bundle.parent / "state")
    done = subprocess.run(
        [
            "runc",
            "--root",
            folder,
            "run",
            "--no-pivot",
            "--bundle",
            str(node.bundle),
            f"t{os.getpid()}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode == 0, ran.exists()) == (left > 0, left > 0), done.stderr
    assert ("may not start here" in done.stderr) == (left < 0)


@pytest.mark.parametrize(("ago", "said"), [(1.0, False), (300.0, True)])
def test_a_guard_that_has_stopped(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ago: float,
    said: bool,
) -> None:
    """The agent may have renewed since: it is the guard that has to be looked at."""
    node.guard_noted(heard(-5), at=boottime() - ago)

    assert node.ask(monkeypatch, OF_JOB) == hook.REFUSED
    assert ("the guard of this node has noted nothing for 300 s" in capsys.readouterr().err) is said
