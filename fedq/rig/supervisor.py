"""Starting, finding and stopping the processes of one rig, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fedq.rig.errors import RigError
from fedq.rig.process import TERM_GRACE, Process, marked, spawn, terminate
from fedq.rig.state import Home
from fedq.rig.waiting import wait_until

SCANS = 5
"""How often processes are looked for at most when they are to end; two are the rule."""

READY_TIMEOUT = 120.0
"""Seconds until a process must be ready. An idle machine needs a tenth; Ray on one that is three
times overloaded was seen to need more than half."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A process to be: what to run, and how to see that it works."""

    name: str
    argv: Sequence[str]
    ready: Callable[[], bool] | None = None
    env: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """The processes of the rig in `home`; all state is on disk, so any command can go on."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def find(self, name: str) -> Process | None:
        """The process as last started; None when never started, or stopped."""
        return Process.read(self._home.record(name))

    def names(self) -> list[str]:
        """Names of all processes that were started and not stopped."""
        return self._home.recorded()

    def start(self, spec: Spec, *, clean: bool = False) -> Process:
        """Start `spec` and record it; one that runs is returned as it is. Does not wait.

        Args:
            clean: end first what an interrupted start left unrecorded under this name.
        """
        known = self.find(spec.name)
        if known is not None and known.running:
            return known
        if clean:
            terminate([pid for pid, name in marked(self._home.path) if name == spec.name])
        mark = f"{self._home.path}:{spec.name}"
        process = spawn(spec.name, spec.argv, spec.env, self._home.log(spec.name), mark)
        process.save(self._home.record(spec.name))
        return process

    def await_ready(self, process: Process, ready: Callable[[], bool] | None) -> Process:
        """Wait until it answers. Raises RigError with its log when it dies or stays silent."""

        def answers() -> bool:
            if not process.running:
                raise RigError(
                    f"{process.name} died while starting",
                    f"{process.tail()}\n(from {process.log})",
                    "Mend that and run `fedq rig up` again, or start afresh after `fedq rig down`.",
                )
            return ready is None or ready()

        if not wait_until(answers, READY_TIMEOUT):
            raise RigError(
                f"{process.name} (pid {process.pid}) is not ready after {READY_TIMEOUT:.0f} s",
                f"{process.tail()}\n(from {process.log})",
                "If the machine is busy, run `fedq rig up` again; `fedq rig down` starts afresh.",
            )
        return process

    def stop(self, names: Sequence[str], grace: float = TERM_GRACE) -> None:
        """End the named processes and all their descendants, then forget them."""
        wanted = set(names)
        records = [process for name in names if (process := self.find(name)) is not None]
        terminate(sorted(process.pid for process in records if process.running), grace)
        self._end_marked(lambda name: name in wanted, grace)
        for name in names:
            self._home.record(name).unlink(missing_ok=True)

    def sweep(self, grace: float = TERM_GRACE) -> None:
        """End whatever still carries the mark of this rig, recorded or not."""
        self._end_marked(lambda name: True, grace)

    def _end_marked(self, wanted: Callable[[str], bool], grace: float) -> None:
        """End what carries the mark, until a look finds none: between fork and exec, and while
        it is ending, a process cannot be recognised, and it may have started another one.
        """
        for scan in range(SCANS):
            pids = [pid for pid, name in marked(self._home.path) if wanted(name)]
            if not pids and scan > 0:
                return
            terminate(pids, grace)
