"""Processes that outlive the command that started them.

A process is known by pid *and* start time (and boot), so that a pid which the kernel gave to
somebody else is never signalled. Each one leads its own session. Every process also carries
its name in its environment, which its children inherit: what a crash left unrecorded, and what
a dead parent left behind, is found by that mark (see `marked`).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from federation.edge.files import write_atomic
from federation.edge.machine import boot_id, process_stat
from fedq.rig.errors import RigError
from fedq.rig.waiting import wait_until

MARK = "FEDQ_RIG_PROCESS"
"""Environment variable `<home>:<name>` of every process of a rig and of its children."""

TERM_GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL; etcd and an API server need well under one."""


@dataclass(frozen=True, slots=True)
class Process:
    """A started process, as remembered on disk.

    Attributes:
        name: `cluster/component`, or what the caller of `start_process` chose.
        started: clock ticks after boot at which the kernel started it.
        boot: identity of that boot, as ticks begin anew with each one.
        log: its standard output and standard error.
    """

    name: str
    pid: int
    started: int
    boot: str
    argv: list[str]
    env: dict[str, str]
    log: Path

    @property
    def running(self) -> bool:
        """True while this very process lives; a zombie does not, and is reaped if it is ours."""
        reap(self.pid)
        return self.boot == boot_id() and start_time(self.pid) == self.started

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send a signal to the process alone, as a fault would; nothing if it is gone."""
        if self.running:
            send(self.pid, signum)

    @property
    def memory_mb(self) -> float:
        """Its share of memory in MiB (PSS: pages shared by n processes count 1/n); 0 when gone."""
        if not self.running:
            return 0.0
        try:
            rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        except OSError:
            return 0.0
        kilobytes = next((line.split()[1] for line in rollup.splitlines() if line[:4] == "Pss:"), 0)
        return int(kilobytes) / 1024

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log, for error messages."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(line[:400] for line in text.splitlines()[-lines:])

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        write_atomic(path, json.dumps(asdict(self) | {"log": str(self.log)}, indent=1))

    @classmethod
    def read(cls, path: Path) -> Process | None:
        """The record in `path`; None when there is none or a stranger's file stands there."""
        try:
            fields = json.loads(path.read_text())
            return cls(**fields | {"log": Path(fields["log"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def spawn(name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, mark: str) -> Process:
    """Start `argv` in a session of its own with `env` added to ours, output appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    try:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            {**os.environ, **env, MARK: mark},
            file_actions=actions,
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    except OSError as error:
        raise RigError(
            f"{name} could not be started", f"{argv[0]}: {error.strerror}", "Check the path."
        ) from error
    finally:
        os.close(output)
    started = start_time(pid)
    return Process(name, pid, -1 if started is None else started, boot_id(), [*argv], {**env}, log)


def start_time(pid: int) -> int | None:
    """Start of a live process in ticks after boot; None for none and for a zombie."""
    found = process_stat(pid)
    return found.started if found else None


def reap(pid: int) -> None:
    """Collect the exit of a child of ours; nothing for other people's processes."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def send(pid: int, signum: int) -> None:
    """Signal `pid`; one that just went is fine."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def marked(home: Path) -> Iterator[tuple[int, str]]:
    """(pid, name) of every live process that carries the mark of the rig in `home`.

    This process and its ancestors are left out: who runs `fedq rig down` may itself be one.
    """
    prefix = f"{MARK}={home}:".encode()
    family = set(_ancestors(os.getpid()))
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in family:
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # gone, or somebody else's
            continue
        for item in environment.split(b"\0"):
            if item.startswith(prefix) and start_time(int(entry.name)) is not None:
                yield int(entry.name), item[len(prefix) :].decode()


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 0:
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])


def terminate(pids: Sequence[int], grace: float = TERM_GRACE) -> None:
    """SIGTERM to all, SIGKILL after `grace` seconds to those that remain; returns when all ended.

    Raises RigError when one survives even that (a process stuck in the kernel).
    """
    alive = {pid: started for pid in pids if (started := start_time(pid)) is not None}

    def gone() -> bool:
        for pid, started in list(alive.items()):
            reap(pid)
            if start_time(pid) != started:
                del alive[pid]
        return not alive

    for signum, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, TERM_GRACE)):
        for pid in alive:
            send(pid, signum)
        if wait_until(gone, patience):
            return
    raise RigError(
        "processes of the rig do not end",
        f"pids {sorted(alive)} survive SIGKILL",
        "They are stuck in the kernel: look at `ps` for state D, then run `fedq rig down` again.",
    )
