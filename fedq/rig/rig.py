"""The rig: a management cluster and worker clusters, and whatever else a test runs beside them.

Everything it knows is on disk, so each method works from any process: the command, a test, a
benchmark. `up` and `down` exclude each other by a lock.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedq.rig.backend import Backend, Progress
from fedq.rig.errors import RigError
from fedq.rig.kind import KindBackend
from fedq.rig.local import LocalBackend
from fedq.rig.network import Loopback, Namespaces, free_subnet
from fedq.rig.network import remove as remove_namespaces
from fedq.rig.paths import rig_home
from fedq.rig.process import TERM_GRACE, Process
from fedq.rig.state import MANAGEMENT, Home, State
from fedq.rig.status import ClusterStatus, ComponentStatus, RigStatus
from fedq.rig.supervisor import Spec, Supervisor

FAST_GRACE = 0.5
"""Seconds that control planes get to end: an API server would wait for its watchers."""


class Rig:
    """One rig, up or not. Make it with `load`."""

    def __init__(self, home: Home, backend: str | None) -> None:
        self._home, self._backend = home, backend
        self._supervisor = Supervisor(home)

    @classmethod
    def load(cls, home: Path | None = None, backend: str | None = None) -> Rig:
        """The rig in `home` (default: `paths.rig_home`), whether it is up or not yet.

        Args:
            backend: `local` or `kind`, for a rig that is yet to come up; default `local`.
        """
        if backend not in (None, "local", "kind"):
            raise RigError(f"no backend {backend!r}", "there are local and kind")
        return cls(Home(rig_home() if home is None else home.absolute()), backend)

    @property
    def home(self) -> Path:
        """The folder of the rig."""
        return self._home.path

    @property
    def clusters(self) -> list[str]:
        """Names of its clusters, the management cluster first; empty when it is not up."""
        state = self._home.read()
        return [] if state is None else list(state.clusters)

    @property
    def workers(self) -> list[str]:
        """Names of its worker clusters."""
        return [name for name in self.clusters if name != MANAGEMENT]

    @property
    def management(self) -> str:
        """Name of its management cluster."""
        return MANAGEMENT

    @property
    def runs_jobs_itself(self) -> bool:
        """Whether its management cluster has nodes."""
        state = self._home.read()
        return state is not None and state.management_nodes > 0

    def claim(self) -> bool:
        """Take the folder for a new rig. False if it is taken: of two callers one gets it."""
        with self._home.lock():
            free = self._home.read() is None
            if free:
                self._home.write(State(self._backend or "local"))
            return free

    def up(
        self,
        workers: int,
        *,
        nodes: int = 4,
        management_nodes: int = 0,
        shared: bool = False,
        namespaces: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Bring up `workers` worker clusters of `nodes` GPU nodes each, or what is missing of them.

        With `management_nodes` the management cluster runs pods as well, on so many nodes.
        With `shared` several containers may have parts of one card, as with HAMi's device plugin.
        With `namespaces` each cluster has a network of its own, see `network`.
        Repairs what died or was half started; takes nothing away: a rig that has more keeps it.
        Raises RigError with the log of a component that does not come up.
        """
        tell = progress or (lambda message: None)
        with self._home.lock():
            state = self._home.read() or State(self._backend or "local")
            if self._backend not in (None, state.backend):
                raise RigError(
                    f"the rig in {self.home} is up with --backend {state.backend}",
                    f"--backend {self._backend} was asked for",
                    "Run `fedq rig down` first.",
                )
            if shared and state.clusters and not state.shared:
                raise RigError(
                    f"the rig in {self.home} is up with cards that cannot be shared",
                    "nodes that exist stay as they are",
                    "Run `fedq rig down` first.",
                )
            if management_nodes and state.backend != "local":
                raise RigError(
                    "only with --backend local does the management cluster get such nodes"
                )
            self._choose_network(state, namespaces)
            state.management_nodes = max(state.management_nodes, management_nodes)
            state.nodes, state.shared = max(state.nodes, nodes), state.shared or shared
            for name in [MANAGEMENT, *(f"worker-{n + 1}" for n in range(workers))]:
                state.clusters.setdefault(name, {})
            # Before anything starts, so that `down` finds all that a crash leaves behind.
            self._home.write(state)
            self._home.make_sockets()
            if isinstance(network := self._home.network(state), Namespaces):
                network.up()
            backend = self._make_backend(state)
            backend.prepare(state, tell)
            self._home.write(state)
            with ThreadPoolExecutor(len(state.clusters)) as pool:
                running = [pool.submit(backend.up, name, state, tell) for name in state.clusters]
            for future in running:
                future.result()

    def down(self) -> None:
        """End every process and remove every file of the rig; fine when there is none."""
        if not self.home.exists():
            return
        with self._home.lock():
            try:
                state = self._home.read()
            except RigError:  # a broken state file must not keep `down` from cleaning up
                state = None
            parts = self._components(state)
            self._supervisor.stop([name for name in self._supervisor.names() if name not in parts])
            self._supervisor.stop(parts, FAST_GRACE)
            self._supervisor.sweep(FAST_GRACE)
            if state is not None:
                self._make_backend(state).down(list(state.clusters), state)
            remove_namespaces(self.home)
            self._home.remove()

    def _choose_network(self, state: State, namespaces: bool) -> None:
        if not namespaces or state.subnet:
            return
        if state.clusters:
            raise RigError(
                f"the rig in {self.home} is up on the loopback",
                "clusters that exist stay where they are",
                "Run `fedq rig down` first.",
            )
        if state.backend != "local":
            raise RigError("only clusters of --backend local can have namespaces of this machine")
        state.subnet = free_subnet(self.home)

    @property
    def network(self) -> Loopback | Namespaces:
        """Where the processes of its clusters meet."""
        return self._home.network(self._state())

    def status(self) -> RigStatus:
        """Clusters, components and other processes, as they are now."""
        state = self._home.read()
        if state is None:
            return RigStatus(str(self.home), self._backend or "local")
        backend = self._make_backend(state)
        clusters = {}
        for name in state.clusters:
            parts = [spec.name for spec in backend.components(name, state)]
            clusters[name] = ClusterStatus(
                backend.api_url(name, state),
                {part.partition("/")[2]: self._look(part) for part in parts},
            )
        known = self._components(state)
        extra = [name for name in self._supervisor.names() if name not in known]
        others = {name: self._look(name) for name in extra}
        return RigStatus(str(self.home), state.backend, clusters, others)

    def kubeconfig(self, cluster: str, user: str = "admin") -> Path:
        """The kubeconfig of `user` on `cluster`, with everything inline."""
        state = self._state(cluster)
        return self._make_backend(state).kubeconfig(cluster, user, state)

    def kubectl(self, cluster: str, *args: str, input: str | None = None) -> str:
        """Standard output of `kubectl ARGS` as admin. Raises RigError with its complaint."""
        program = self._state(cluster).binaries["kubectl"]
        options = ["--kubeconfig", str(self.kubeconfig(cluster))]
        options += ["--cache-dir", str(self.home / "kubectl-cache")]
        done = subprocess.run(
            [program, *options, *args], input=input, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RigError(
                f"kubectl {' '.join(args)} on {cluster} failed ({done.returncode})",
                done.stderr.strip(),
            )
        return done.stdout

    @property
    def socket_dir(self) -> Path:
        """A short, private folder for Unix sockets while the rig is up; it goes with the rig."""
        return self._home.sockets

    def data_dir(self, name: str) -> Path:
        """A folder for the files of the process `name`; it goes with the rig."""
        folder = self.home / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def start_process(
        self,
        name: str,
        argv: list[str],
        env: dict[str, str],
        ready: Callable[[], bool] | None = None,
        *,
        cluster: str = "",
    ) -> Process:
        """Start a process beside the clusters, as part of the rig, and wait until it is ready.

        It runs in the network of `cluster`, if that has one of its own; `env` is added to this
        process's environment. One of that name that runs with the same
        command is returned as it is.
        """
        state = self._state(cluster or MANAGEMENT)
        if cluster:
            argv = [*self._home.network(state).inside(cluster), *argv]
        known = self.process(name)
        if known is not None and known.running and (known.argv, known.env) != (argv, env):
            raise RigError(
                f"{name} runs already, with another command or environment",
                f"pid {known.pid}: {' '.join(known.argv)}",
                "Run `fedq rig down` first, then bring the rig up as you want it.",
            )
        return self._supervisor.await_ready(
            self._supervisor.start(Spec(name, argv, ready, env)), ready
        )

    def stop_process(self, name: str, grace: float = TERM_GRACE) -> None:
        """End a process and its descendants (SIGKILL after `grace` seconds) and forget it."""
        self._supervisor.stop([name], grace)

    def process(self, name: str) -> Process | None:
        """The process or component as last started; None when never started, or stopped."""
        return self._supervisor.find(name)

    def restart(self, name: str, env: dict[str, str] | None = None) -> Process:
        """Stop a process or component and start it as it was, or with another environment; waits
        for a component's readiness.
        """
        process = self.process(name)
        if process is None:
            raise RigError(
                f"no process {name!r} in the rig",
                f"there are {', '.join(self._supervisor.names())}",
            )
        ready, grace = None, TERM_GRACE
        state, cluster = self._state(), name.partition("/")[0]
        if cluster in state.clusters:
            grace = FAST_GRACE
            specs = self._make_backend(state).components(cluster, state)
            ready = next((spec.ready for spec in specs if spec.name == name), None)
        self._supervisor.stop([name], grace)
        spec = Spec(name, process.argv, ready, process.env if env is None else env)
        return self._supervisor.await_ready(self._supervisor.start(spec), ready)

    def _state(self, cluster: str = MANAGEMENT) -> State:
        state = self._home.read()
        if state is None:
            raise RigError(
                f"no rig is up in {self.home}", todo="Run `fedq rig up --workers 2` first."
            )
        if cluster not in state.clusters:
            raise RigError(f"no cluster {cluster!r}", f"there are {', '.join(state.clusters)}")
        return state

    def _components(self, state: State | None) -> list[str]:
        if state is None:
            return []
        backend = self._make_backend(state)
        every = (backend.components(name, state) for name in state.clusters)
        return [spec.name for parts in every for spec in parts]

    def _look(self, name: str) -> ComponentStatus:
        return ComponentStatus.of(self._supervisor.find(name))

    def _make_backend(self, state: State) -> Backend:
        backend = KindBackend if state.backend == "kind" else LocalBackend
        return backend(self._home, self._supervisor)
