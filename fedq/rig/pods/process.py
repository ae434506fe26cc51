"""The process that stands for the containers of a pod. It writes down when it runs, as it runs.

    python -I -S process.py FILE ABOUT SECONDS EXIT STOP_SECONDS

It makes FILE, and does nothing if that is there: no pod ever has two processes. ABOUT is the JSON
object of what its start record says beside the time. It works for SECONDS, the time in which it was
stopped (SIGSTOP, a paused machine) left out, and ends with code EXIT. After SIGTERM it goes on for
STOP_SECONDS (`never`: as if nothing had happened) and ends with 143. The format of the records is
in `fedq.drill.records`.

With FEDQ_CHECKPOINTS, a folder, it commits to the token of its job with each heartbeat.

A script that imports nothing of ours (but for that), nor `json`: a drill starts hundreds of them.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

BEAT = 0.5
"""Seconds between two heartbeats: for so long a process may have lived after its last record."""
PAUSE = 1.5
"""A process that was silent for so long was stopped, not just waiting for a processor."""
NEVER = "never"
STARTED = 3
"""A descriptor that it is started with, and closes when it has written that it runs."""


def boottime() -> float:
    """Seconds since boot, of sleep too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """The file of this process. Each record is one write, so that a reader never sees half of it
    with another behind it.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)

    def write(self, kind: str, fields: str = "", *, at: float, sync: bool = False) -> None:
        """Append a record; `fields` is what it has beside kind and time, as text of JSON."""
        more = f", {fields}" if fields else ""
        os.write(self._file, f'{{"t": "{kind}", "b": {at:.4f}{more}}}\n'.encode())
        if sync:
            os.fsync(self._file)


class Termination:
    """Waits for SIGTERM. Nothing is done in a handler: no record is ever written within another."""

    def __init__(self) -> None:
        self._told, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told)
        signal.signal(signal.SIGTERM, lambda number, frame: None)

    def wait(self, seconds: float) -> bool:
        """Whether it came within that time."""
        if not select.select([self._told], [], [], seconds)[0]:
            return False
        os.read(self._told, 64)
        return True


def start_ticks() -> str:
    """When the kernel started this process, in ticks after boot."""
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


def committing(history: History) -> Callable[[float], None]:
    """What to do with each heartbeat."""
    where = os.environ.get("FEDQ_CHECKPOINTS")
    if not where:
        return lambda moment: None
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from fedq.rig.pods.checkpoints import Checkpoints

    checkpoints = Checkpoints(where, lambda kind, moment: history.write(kind, at=moment))
    checkpoints.claim(boottime)
    return checkpoints.commit


def work(
    history: History, term: Termination, beat: float, seconds: float, grace: float | None
) -> bool:
    """Run for `seconds` from `beat`, the moment of the last record, or until `grace` seconds after
    SIGTERM (None: not at all before the end). True if it came to its end.
    """
    end, killed, commit = beat + seconds, False, committing(history)
    while True:
        now = boottime()
        if now - beat >= PAUSE:
            history.write("paused", f'"from": {beat:.4f}', at=now)
            end += now - beat
        else:
            history.write("alive", at=now)
        beat = now
        commit(now)
        if now >= end:
            return not killed
        if term.wait(min(BEAT, end - now)):
            history.write("term", at=boottime())
            if grace is not None and not killed:
                end, killed = boottime() + grace, True


def main() -> int:
    """See the module."""
    path, about, seconds, code, stop = sys.argv[1:]
    term = Termination()
    try:
        history = History(path)
    except FileExistsError:
        return 3
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    own = f'"pid": {os.getpid()}, "ticks": {start_ticks()}, "boot": "{boot}"'
    fields = f'{about.strip()[1:-1]}, {own}, "w": {time.time():.3f}'
    started = boottime()
    history.write("start", fields, at=started, sync=True)
    os.close(STARTED)
    done = work(history, term, started, float(seconds), None if stop == NEVER else float(stop))
    status, reason = (int(code), "done") if done else (143, "term")
    ending = f'"exit": {status}, "reason": "{reason}", "w": {time.time():.3f}'
    history.write("stop", ending, at=boottime(), sync=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
