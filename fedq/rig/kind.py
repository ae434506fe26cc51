"""The backend for people with Docker: one kind cluster each, with the same GPU nodes.

kwok runs on this machine, as in the local backend, and plays the GPU nodes (label `type: kwok`)
of each worker; the one real node is tainted, so that Jobs land on them and complete by the same
stages. The clusters are called `fedq-<name>`: one kind rig per machine.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from federation.api import yaml_text
from federation.edge.files import write_atomic
from fedq.rig.api import plain_ready
from fedq.rig.backend import Progress
from fedq.rig.binaries import find_or_build
from fedq.rig.components import kwok_flags
from fedq.rig.errors import RigError
from fedq.rig.objects import gpu_node
from fedq.rig.ports import allocate
from fedq.rig.state import MANAGEMENT, Home, State
from fedq.rig.supervisor import Spec, Supervisor

CHECKOUT = Path(__file__).parents[2]
TOOLS = ("kind", "kubectl", "kwok")
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
NODE_WAIT = "180s"
"""For `kind create cluster --wait`: pulling the node image comes before and is not counted."""


class KindBackend:
    """Clusters in Docker containers, through the `kind` command line."""

    def __init__(self, home: Home, supervisor: Supervisor) -> None:
        self._home, self._supervisor = home, supervisor
        # One at a time: starting two nodes at once on a small machine makes both time out.
        self._creating = Lock()

    def prepare(self, state: State, tell: Progress) -> None:
        """See `Backend`."""
        found = find_or_build(TOOLS, tell)
        state.binaries = {tool: str(path) for tool, path in found.items()}
        for name, ports in state.clusters.items():
            if name != MANAGEMENT and not ports:
                taken = [port for known in state.clusters.values() for port in known.values()]
                ports["kwok"] = allocate(1, self._home.path, taken)[0]

    def up(self, cluster: str, state: State, tell: Progress) -> None:
        """See `Backend`."""
        kubeconfig = self.kubeconfig(cluster, "admin", state)
        with self._creating:
            self._create(cluster, kubeconfig, state.binaries["kind"], tell)
        kubectl = [state.binaries["kubectl"], f"--kubeconfig={kubeconfig}"]
        run([*kubectl, "get", "--raw=/readyz"], todo=self._repair(cluster))
        if cluster == MANAGEMENT:
            return
        taint = f"{CONTROL_PLANE}=:NoSchedule"
        run([*kubectl, "taint", "nodes", "-l", CONTROL_PLANE, taint, "--overwrite"])
        each = range(state.nodes)
        items = [gpu_node(cluster, index, shared=state.shared) for index in each]
        nodes = {"apiVersion": "v1", "kind": "List", "items": items}
        run([*kubectl, "apply", "-f", "-"], text=json.dumps(nodes))
        for spec in self.components(cluster, state):
            process = self._supervisor.start(spec, clean=True)
            self._supervisor.await_ready(process, spec.ready)

    def down(self, clusters: list[str], state: State) -> None:
        """See `Backend`. A cluster whose creation never began is left to whoever owns it."""
        for cluster in clusters:
            if self._config_file(cluster).exists():
                command = [state.binaries["kind"], "delete", "cluster", "--name"]
                run(
                    [*command, f"fedq-{cluster}"],
                    todo="Start Docker, then run `fedq rig down` again.",
                )

    def api_url(self, cluster: str, state: State) -> str:
        """See `Backend`."""
        port = kind_config(cluster)["networking"]["apiServerPort"]
        return f"https://127.0.0.1:{port}"

    def kubeconfig(self, cluster: str, user: str, state: State) -> Path:
        """See `Backend`. kind makes an admin only; the key of its authority stays inside."""
        if user != "admin":
            raise RigError(f"no user {user!r} in a kind rig", "there is admin")
        return self._home.path / "kind" / f"{cluster}.kubeconfig"

    def components(self, cluster: str, state: State) -> list[Spec]:
        """See `Backend`: kwok of a worker; the rest runs in containers."""
        port = state.clusters[cluster].get("kwok")
        if port is None:
            return []
        flags = kwok_flags(self.kubeconfig(cluster, "admin", state), port)
        argv = [state.binaries.get("kwok", "kwok"), *flags]
        argv.append("--manage-nodes-with-label-selector=type=kwok")
        return [Spec(f"{cluster}/kwok", argv, lambda: plain_ready(port, "/healthz"))]

    def _create(self, cluster: str, kubeconfig: Path, kind: str, tell: Progress) -> None:
        name = f"fedq-{cluster}"
        options = ["--name", name, "--kubeconfig", str(kubeconfig)]
        if name in run([kind, "get", "clusters"], todo="Is Docker running?").split():
            if not kubeconfig.exists():
                kubeconfig.parent.mkdir(parents=True, exist_ok=True)
                run([kind, "export", "kubeconfig", *options])
            return
        tell(f"starting {name} in kind")
        file = self._config_file(cluster)
        write_atomic(file, yaml_text.dump(kind_config(cluster)))
        config = ["--config", str(file), "--wait", NODE_WAIT]
        run([kind, "create", "cluster", *options, *config], todo="Is Docker running?")

    def _config_file(self, cluster: str) -> Path:
        return self._home.path / "kind" / f"{cluster}.yaml"

    def _repair(self, cluster: str) -> str:
        start = f"`docker start fedq-{cluster}-control-plane`"
        return f"{start}, or `fedq rig down` and `fedq rig up` again."


def kind_config(cluster: str) -> dict[str, Any]:
    """kind's configuration of a cluster, from `kind-configs/`.

    A worker without a file of its own gets the first one's, host ports counted up. Raises
    RigError when the folder is not there, as in an installed package.
    """
    folder = CHECKOUT / "kind-configs"
    file = folder / f"{cluster}.yaml"
    offset = 0
    if not file.exists():
        file, offset = folder / "worker-1.yaml", int(cluster.rpartition("-")[2]) - 1
    try:
        config: dict[str, Any] = yaml.safe_load(file.read_text())
    except OSError as error:
        todo = "Run this from a checkout of Fedq: the kind files are not part of the package."
        raise RigError("no configuration for kind", str(error), todo) from error
    config["name"] = f"fedq-{cluster}"
    config["networking"]["apiServerPort"] += offset
    for node in config["nodes"]:
        for mapping in node.get("extraPortMappings", []):
            mapping["hostPort"] += offset
        for mount in node.get("extraMounts", []):
            # kind would take a relative path from where the command happens to run.
            mount["hostPath"] = str(CHECKOUT / mount["hostPath"])
    return config


def run(argv: list[str], *, text: str | None = None, todo: str = "") -> str:
    """Standard output of a command. Raises RigError with its standard error when it fails."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        what = f"`{Path(argv[0]).name} {' '.join(argv[1:])}` failed ({done.returncode})"
        raise RigError(what, "\n".join(done.stderr.splitlines()[-15:]), todo)
    return done.stdout
