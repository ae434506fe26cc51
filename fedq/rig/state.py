"""What a rig remembers on disk, and where: one folder, of which `down` leaves nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from federation.edge.files import write_atomic
from fedq.rig.errors import RigError
from fedq.rig.files import locked
from fedq.rig.network import Loopback, Namespaces

MANAGEMENT = "management"

_OWN = ("clusters", "data", "kind", "kubectl-cache", "logs", "pki", "processes", "rig.json")


@dataclass(slots=True)
class State:
    """The rig as it was asked for.

    Attributes:
        backend: `local` or `kind`.
        nodes: GPU nodes of each worker cluster.
        management_nodes: those of the management cluster, which mostly runs no pods.
        shared: whether their cards are registered to be shared, as HAMi's device plugin does it.
        subnet: where its namespaces have their addresses; empty: all is on the loopback.
        clusters: cluster → use → TCP port.
        binaries: program → path, as found by the last `up`.
    """

    backend: str = "local"
    nodes: int = 0
    management_nodes: int = 0
    shared: bool = False
    subnet: str = ""
    clusters: dict[str, dict[str, int]] = field(default_factory=dict)
    binaries: dict[str, str] = field(default_factory=dict)


class Home:
    """The folder of one rig."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lock(self) -> AbstractContextManager[None]:
        """Held while a rig is changed: a second `up` or `down` waits for the first."""
        return locked(self.path / ".lock")

    def read(self) -> State | None:
        """The remembered state; None when no rig is here."""
        file = self.path / "rig.json"
        try:
            return State(**json.loads(file.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise RigError(
                f"{file} cannot be read", str(error), "Run `fedq rig down`, then `fedq rig up`."
            ) from error

    def write(self, state: State) -> None:
        """Remember `state`. Refuses a folder that holds somebody's other files."""
        file = self.path / "rig.json"
        if not file.exists() and (strangers := self._strangers()):
            (self.path / ".lock").unlink(missing_ok=True)  # nothing of ours stays in it
            raise RigError(
                f"{self.path} is not empty and holds no rig",
                f"it holds {', '.join(strangers[:5])}",
                "Point FEDQ_RIG_HOME at a folder of its own.",
            )
        write_atomic(file, json.dumps(asdict(state), indent=1))

    def network(self, state: State) -> Loopback | Namespaces:
        """Where the processes of its clusters meet."""
        if not state.subnet:
            return Loopback()
        return Namespaces(self.path, state.subnet, list(state.clusters))

    def record(self, name: str) -> Path:
        """The record of the process `name`."""
        return self.path / "processes" / f"{quote(name, safe='')}.json"

    def recorded(self) -> list[str]:
        """Names of all processes that were started and not stopped, sorted."""
        found = (self.path / "processes").glob("[!.]*.json")
        return sorted(unquote(file.stem) for file in found)

    def log(self, name: str) -> Path:
        """The log of the process `name`."""
        return self.path / "logs" / f"{name}.log"

    def cluster(self, name: str) -> Path:
        """Keys, kubeconfigs and data of one cluster."""
        return self.path / "clusters" / name

    @property
    def sockets(self) -> Path:
        """Folder for Unix sockets, ours alone; short, as their paths are limited to 107 bytes."""
        digest = hashlib.sha256(str(self.path).encode()).hexdigest()[:10]
        return Path(tempfile.gettempdir()) / f"fedq-{os.getuid()}-{digest}"

    def make_sockets(self) -> None:
        """Make that folder. Raises RigError when somebody else has it."""
        folder = self.sockets
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise RigError(
                f"{folder} is not a private folder of this user",
                "the sockets of the rig would be open to others",
                "Remove it, then try again.",
            )

    def remove(self) -> None:
        """Delete what the rig made, and the folder if nothing else is in it."""
        shutil.rmtree(self.sockets, ignore_errors=True)
        for name in _OWN:
            entry = self.path / name
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        (self.path / ".lock").unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _strangers(self) -> list[str]:
        if not self.path.exists():
            return []
        return sorted(entry.name for entry in self.path.iterdir() if entry.name != ".lock")
