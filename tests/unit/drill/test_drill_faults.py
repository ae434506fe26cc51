"""Faults that hit processes and objects: each does what it says, to those it names alone."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import yaml

from federation.api.access import kubeconfig_secret
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import NODES, PODS, SECRETS
from fedq.drill.faults import proxied
from fedq.drill.faults.credentials import bad_token
from fedq.drill.faults.link import Way, partition
from fedq.drill.faults.nodes import powered_off
from fedq.drill.faults.processes import marks, of_cluster, running_part, strike
from fedq.drill.faults.twins import twin
from fedq.rig.errors import RigError
from fedq.rig.pods.handle import Handle
from fedq.rig.pods.plan import Plan, pods_mark
from fedq.rig.process import start_time
from fedq.rig.rig import Rig
from fedq.rig.waiting import wait_until
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
SLEEP = ["sleep", "60"]
PATIENCE = 10.0
QUIET = 0.3
"""Seconds for which nothing may come through a cut; the loopback needs a thousandth."""


class Broken(Exception):
    """What happens inside a fault may fail."""


def client(fake: FakeKube) -> KubeClient:
    """Of a fake cluster."""
    return KubeClient(Endpoint("https://fake"), transport=fake)


# Processes


async def test_the_processes_of_a_cluster_are_those_on_its_machines(bare: Rig) -> None:
    """Its components, its programs and its pods; none of a cluster with a longer name."""
    names = ("manager", "worker-1/etcd", "agent/worker-1", "worker-10/etcd", "agent/worker-10")
    for name in names:
        bare.start_process(name, SLEEP, {})
    pod = await start_pod(bare, "p")
    assert of_cluster(bare, "worker-1") == ["agent/worker-1", "pods/worker-1", "worker-1/etcd"]
    assert pod.pid in marks(bare, "pods/worker-1")


CHILD = """
import os, subprocess, sys, time
subprocess.Popen(["sleep", "61"], env={})
print("ready", flush=True)
time.sleep(60)
"""
"""Its child has lost the mark of the rig, as one that overwrites its environment."""


def test_a_part_of_a_program_is_found_by_its_command_line(bare: Rig) -> None:
    """Among what that program started, and nothing else; a signal hits that process alone."""
    programs = [bare.start_process(name, [sys.executable, "-c", CHILD], {}) for name in ("a", "b")]
    assert wait_until(lambda: all("ready" in program.tail() for program in programs), PATIENCE)
    [part] = running_part(bare, "a", "no-such-part", "sleep 61")
    [other] = running_part(bare, "b", "sleep 61")
    assert part != other
    assert running_part(bare, "a", "gcs_server") == []
    assert running_part(bare, "c", "sleep 61") == []

    strike(part)
    assert wait_until(lambda: start_time(part) is None, PATIENCE)
    strike(part)  # it is gone
    assert running_part(bare, "b", "sleep 61") == [other]
    assert all(program.running for program in programs)
    os.kill(other, 9)  # it has no mark by which the rig would end it


LISTENER = """
import os, socket, time
host, _, port = os.environ["FEDQ_LISTEN"].rpartition(":")
server = socket.create_server((host, int(port)))
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("name", "second"), [("manager", "manager-twin"), ("agent/worker-1", "agent-twin/worker-1")]
)
async def test_a_twin_runs_beside_the_first_with_its_credentials(
    bare: Rig, name: str, second: str
) -> None:
    """The same program and settings; what only one process can have is its own."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    given = {"FEDQ_LISTEN": f"127.0.0.1:{port}", "FEDQ_KUBECONFIG": "k", "FEDQ_STATE_DIR": "s"}
    first = bare.start_process(name, [sys.executable, "-c", LISTENER], given)
    with suppress(Broken):
        async with twin(bare, name) as found:
            other = bare.process(found)
            assert other is not None
            assert found == second
            assert (first.running, other.running) == (True, True)
            assert (other.argv, other.env["FEDQ_KUBECONFIG"]) == (first.argv, "k")
            assert all(other.env[key] != given[key] for key in ("FEDQ_LISTEN", "FEDQ_STATE_DIR"))
            host, _, port = other.env["FEDQ_LISTEN"].rpartition(":")
            socket.create_connection((host, int(port)), timeout=5).close()
            raise Broken
    assert not other.running
    assert first.running
    with pytest.raises(RigError, match="does not run"):
        async with twin(bare, "no-such-program"):
            pass


# Credentials


@pytest.mark.parametrize("fails", [False, True])
async def test_a_token_is_bad_for_a_while(fails: bool) -> None:
    """Only the token; the Secret is as it was afterwards."""
    fake, name = FakeKube(namespaces=(FEDQ_NAMESPACE,)), kubeconfig_secret("east")
    config = {"clusters": [{"name": "east"}], "users": [{"name": "u", "user": {"token": "good"}}]}
    data = {KUBECONFIG_KEY: base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    fake.create(SECRETS, {"metadata": {"name": name, "namespace": FEDQ_NAMESPACE}, "data": data})
    async with client(fake) as kube:
        with suppress(Broken):
            async with bad_token(kube, "east"):
                now = fake.get(SECRETS, name, FEDQ_NAMESPACE)["data"][KUBECONFIG_KEY]
                bad = [{"name": "u", "user": {"token": "expired"}}]
                assert yaml.safe_load(base64.b64decode(now)) == {**config, "users": bad}
                if fails:
                    raise Broken
    assert fake.get(SECRETS, name, FEDQ_NAMESPACE)["data"] == data


# Nodes


async def start_pod(rig: Rig, uid: str) -> Handle:
    """The process of a pod on worker-1."""
    about = {"job": "j", "attempt": 1, "pod": uid, "cluster": "worker-1"}
    file = rig.data_dir("history") / f"{uid}.jsonl"
    return await Handle.start(
        Plan(uid, f"ns/{uid}", {}, about, 60, 0, "0"), file, pods_mark(rig.home, "worker-1")
    )


@pytest.mark.parametrize("fails", [False, True])
async def test_a_node_without_power_loses_its_processes_and_comes_back_empty(
    bare: Rig, fails: bool
) -> None:
    """The pods of other nodes run on."""
    fake, handles = FakeKube(namespaces=("team",)), {}
    for node in ("n1", "n2"):
        labels = {"kubernetes.io/hostname": node}
        fake.create(NODES, {"metadata": {"name": node, "labels": labels}})
        fake.merge(NODES, node, {"status": {"capacity": {"cpu": "8"}}}, status=True)
        meta = {"name": f"on-{node}", "namespace": "team"}
        uid = fake.create(PODS, {"metadata": meta, "spec": {"nodeName": node}})["metadata"]["uid"]
        handles[node] = await start_pod(bare, uid)
    fake.create(PODS, {"metadata": {"name": "waits", "namespace": "team"}, "spec": {}})
    before = fake.get(NODES, "n1")
    async with client(fake) as kube:
        with suppress(Broken):
            async with powered_off(bare, kube, "worker-1", {"n1"}) as hit:
                assert [pod["metadata"]["name"] for pod in hit] == ["on-n1"]
                await asyncio.wait_for(handles["n1"].gone(), PATIENCE)
                assert [node["metadata"]["name"] for node in fake.items(NODES)] == ["n2"]
                if fails:
                    raise Broken
    after = fake.get(NODES, "n1")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert handles["n2"].alive


# Proxies


@asynccontextmanager
async def api_servers(rig: Rig) -> AsyncIterator[dict[str, asyncio.Queue[bytes]]]:
    """What stands for the API server of each cluster of a rig: it answers `re:` and what it heard,
    which is put into its queue.
    """
    heard: dict[str, asyncio.Queue[bytes]] = {}
    servers = []
    for cluster in rig.clusters:
        queue = heard[cluster] = asyncio.Queue[bytes]()

        async def echo(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            queue: asyncio.Queue[bytes] = queue,
        ) -> None:
            with suppress(OSError):
                while data := await reader.read(100):
                    queue.put_nowait(data)
                    writer.write(b"re:" + data)
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        servers.append(server)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        file = rig.kubeconfig(cluster)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({"clusters": [{"cluster": {"server": url}}]}))
    try:
        yield heard
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


async def ask(port: int, word: bytes) -> bytes:
    """What comes back through a proxy, from a new connection; empty if nothing does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(word)
        return await asyncio.wait_for(reader.readexactly(3 + len(word)), QUIET)
    except TimeoutError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("way", "up", "down"),
    [
        (Way.BOTH, [], []),
        (Way.FROM_WORKER, [], [b"during"]),
        (Way.TO_WORKER, [b"during"], []),
    ],
    ids=lambda value: str(value),
)
async def test_proxies_between_clusters_fall_silent_one_way_or_both(
    bare: Rig, way: Way, up: list[bytes], down: list[bytes]
) -> None:
    """`up` is what of an agent's request arrives during the cut, `down` of the manager's; no answer
    ever does, and the manager's way to its own API server is not touched.
    """
    async with api_servers(bare) as heard:
        await asyncio.to_thread(proxied.prepare, bare)
        ports = yaml.safe_load(proxied.detours_file(bare).read_text())
        link = proxied.ProxiedLink(bare)
        ways = {"up/worker-1": "management", "down/worker-1": "worker-1"}
        for name, cluster in ways.items():
            assert await ask(ports[name], b"before") == b"re:before"
            assert heard[cluster].get_nowait() == b"before"
        with suppress(Broken):
            async with partition(link, "worker-1", way=way):
                for name, arrives in (("up/worker-1", up), ("down/worker-1", down)):
                    assert await ask(ports[name], b"during") == b""
                    assert [*drained(heard[ways[name]])] == arrives
                assert await ask(ports["manager"], b"self") == b"re:self"
                raise Broken
        for name in ways:
            assert await ask(ports[name], b"after") == b"re:after"
        await asyncio.to_thread(bare.stop_process, "proxies")


def drained(queue: asyncio.Queue[bytes]) -> list[bytes]:
    """All that is in it."""
    return [queue.get_nowait() for _ in range(queue.qsize())]
