"""The default backend: etcd, API server and their clients as plain processes on the loopback."""

from __future__ import annotations

from pathlib import Path

from fedq.rig.backend import Progress
from fedq.rig.binaries import find_or_build
from fedq.rig.components import waves
from fedq.rig.errors import RigError
from fedq.rig.layout import PORTS, USERS, Layout
from fedq.rig.objects import create_nodes, grant_kwok
from fedq.rig.pki import Authority
from fedq.rig.ports import allocate
from fedq.rig.state import MANAGEMENT, Home, State
from fedq.rig.supervisor import Spec, Supervisor
from fedq.rig.tools import LOCAL_TOOLS, is_executable


class LocalBackend:
    """Control planes of the rig in `home`, run by `supervisor`."""

    def __init__(self, home: Home, supervisor: Supervisor) -> None:
        self._home, self._supervisor = home, supervisor

    def prepare(self, state: State, tell: Progress) -> None:
        """See `Backend`. Programs found before are kept while they exist."""
        known = {tool: Path(state.binaries.get(tool, "/nonexistent")) for tool in LOCAL_TOOLS}
        if not all(is_executable(path) for path in known.values()):
            found = find_or_build(LOCAL_TOOLS, tell)
            state.binaries = {tool: str(path) for tool, path in found.items()}
        taken = [port for ports in state.clusters.values() for port in ports.values()]
        for ports in state.clusters.values():
            if not ports:
                numbers = allocate(len(PORTS), self._home.path, taken)
                ports.update(zip(PORTS, numbers, strict=True))
                taken += numbers
        Authority(self._home.path / "pki")

    def up(self, cluster: str, state: State, tell: Progress) -> None:
        """See `Backend`."""
        layout = self._layout(cluster, state)
        layout.prepare(Authority(layout.authority))
        etcd, apiserver, clients = waves(layout, state.binaries)
        self._start(etcd, tell)
        self._start(apiserver, tell)
        if layout.runs_pods:
            grant_kwok(layout.endpoint())
        self._start(clients, tell)
        if layout.runs_pods:
            nodes = state.management_nodes if cluster == MANAGEMENT else state.nodes
            create_nodes(layout.endpoint(), cluster, nodes, shared=state.shared)

    def down(self, clusters: list[str], state: State) -> None:
        """See `Backend`: everything is in the rig's folder or a process of it."""

    def api_url(self, cluster: str, state: State) -> str:
        """See `Backend`; empty while an interrupted `up` has chosen no ports yet."""
        return self._layout(cluster, state).api_url if state.clusters[cluster] else ""

    def kubeconfig(self, cluster: str, user: str, state: State) -> Path:
        """See `Backend`."""
        if user not in USERS:
            raise RigError(f"no user {user!r} in the rig", f"there are {', '.join(USERS)}")
        return self._layout(cluster, state).kubeconfig(user)

    def components(self, cluster: str, state: State) -> list[Spec]:
        """See `Backend`."""
        if not state.clusters[cluster]:
            return []
        layout = self._layout(cluster, state)
        return [spec for wave in waves(layout, state.binaries) for spec in wave]

    def _layout(self, cluster: str, state: State) -> Layout:
        folder, authority = self._home.cluster(cluster), self._home.path / "pki"
        network = self._home.network(state)
        return Layout(
            cluster,
            folder,
            self._home.sockets,
            authority,
            state.clusters[cluster],
            network.host(cluster),
            tuple(network.inside(cluster)),
            cluster != MANAGEMENT or state.management_nodes > 0,
        )

    def _start(self, specs: list[Spec], tell: Progress) -> None:
        started = []
        for spec in specs:
            known = self._supervisor.find(spec.name)
            if known is None or not known.running:
                tell(f"starting {spec.name}")
            started.append(self._supervisor.start(spec, clean=True))
        for spec, process in zip(specs, started, strict=True):
            self._supervisor.await_ready(process, spec.ready)
