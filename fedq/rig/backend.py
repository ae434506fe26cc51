"""What every kind of rig can do with one cluster; `Rig` builds everything else on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fedq.rig.state import State
from fedq.rig.supervisor import Spec

Progress = Callable[[str], None]


class Backend(Protocol):
    """Real clusters by name. All methods are idempotent and raise RigError."""

    def prepare(self, state: State, tell: Progress) -> None:
        """Find programs and choose ports for all clusters of `state`, writing into it."""

    def up(self, cluster: str, state: State, tell: Progress) -> None:
        """Bring one cluster to work, starting what does not run. Called in parallel."""

    def down(self, clusters: list[str], state: State) -> None:
        """Remove what `Rig.down` does not: things outside the rig's folder and processes."""

    def api_url(self, cluster: str, state: State) -> str:
        """Base URL of the cluster's API server."""

    def kubeconfig(self, cluster: str, user: str, state: State) -> Path:
        """The kubeconfig of `user`. Raises RigError for one that the backend does not know."""

    def components(self, cluster: str, state: State) -> list[Spec]:
        """The cluster's processes on this machine, in starting order."""
