"""`fedq demo` as people run it: exactly once, and nothing of it remains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fedq.rig.process import marked
from fedq.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A rig home of this test's own."""
    return tmp_path / "rig"


def start(home: Path, *args: str) -> subprocess.Popen[str]:
    """`fedq demo ARGS` with its own rig home."""
    return subprocess.Popen(
        [sys.executable, "-c", "from fedq.cli import main; main()", "demo", *args],
        env={**os.environ, "FEDQ_RIG_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_nothing_is_left(home: Path) -> None:
    """No process that carries the rig's mark, no file of it, no socket folder."""
    assert list(marked(home)) == []
    assert not home.exists()
    sockets = Rig.load(home).socket_dir
    assert sockets.parent == Path(tempfile.gettempdir())
    assert not sockets.exists()


def test_every_job_runs_exactly_once(home: Path) -> None:
    """One JSON object on standard output, progress on standard error, exit code 0."""
    demo = start(home, "--jobs", "6", "--json")
    out, err = demo.communicate()

    assert demo.returncode == 0, err
    found = json.loads(out)
    assert (found["submitted"], found["finished"], found["duplicates"]) == (6, 6, 0)
    assert found["exactlyOnce"] is True
    assert found["seconds"] > 0
    assert sum(found["starts"].values()) == 6
    assert found["waited"] > 0, "some Jobs must have had to wait for quota"
    assert "Traceback" not in err
    assert_nothing_is_left(home)


def test_ctrl_c_takes_everything_down(home: Path) -> None:
    """In the middle of starting the control planes."""
    demo = start(home, "--jobs", "6")
    deadline = time.monotonic() + 60
    while not list(marked(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate()

    assert demo.returncode == 130, err
    assert "Traceback" not in err
    assert_nothing_is_left(home)
