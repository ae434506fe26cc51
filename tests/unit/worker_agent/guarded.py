"""Processes for a guard to end: all that people's containers do, as small scripts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE = 10.0
IGNORES = "import signal; signal.signal(15, signal.SIG_IGN);"
FORKS = (
    "import os, sys;child = [sys.executable, '-ISc', 'import time; time.sleep(60)', sys.argv[1]];"
)
SCRIPTS = {
    "sleeps": "import time; time.sleep(60)",
    "ignores SIGTERM": f"{IGNORES} import time; time.sleep(60)",
    "child without environment": (
        f"{FORKS} pid = os.posix_spawn(child[0], child, {{}}); os.waitpid(pid, 0)"
    ),
    "child that ignores SIGTERM and is left alone": (
        f"{FORKS} import time; child[2] = 'import signal; signal.signal(15, signal.SIG_IGN);'"
        " + child[2]; os.posix_spawn(child[0], child, {}); time.sleep(60)"
    ),
    "daemon without environment": (
        f"{FORKS} import time;"
        "os.fork() or (os.setsid(), os.fork() and os._exit(0),"
        " os.execve(child[0], child, {})); time.sleep(60)"
    ),
}
"""What a name says is what the processes become; each leaves the argument that it got in the
command line of all its processes."""


class Pod:
    """Processes of one run; a mark in their command lines finds those that hide."""

    def __init__(self, script: str, env: dict[str, str], group: Path | None = None) -> None:
        self.mark = uuid.uuid4().hex

        def enter() -> None:
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        self._script = script
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", SCRIPTS[script], self.mark],
            env=env,
            start_new_session=True,
            preexec_fn=enter,
        )
        wait_for(self._settled)

    def _settled(self) -> bool:
        """Whether all its processes are what they are to be."""
        alive = self.alive()
        deaf = any(_ignores_sigterm(pid) for pid in alive)
        expected = 2 if self._script.startswith(("child", "daemon")) else 1
        return len(alive) == expected and deaf == ("ignores" in self._script)

    def alive(self) -> list[int]:
        """The pids of its processes that live."""
        self.process.poll()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if self.mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(pid)
        return found

    def end(self) -> None:
        """For the end of a test, whatever became of it."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _ignores_sigterm(pid: int) -> bool:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> float:
    """How long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it did not happen"
        time.sleep(0.02)  # a poll interval inside a bounded wait
    return time.monotonic() - started
