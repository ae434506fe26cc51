"""`fedq logs` and `fedq events` on real control planes: what is passed on, and to whom."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from bench.observer import observing
from federation.edge.resources import JOBS, NODES, PODS, WORKLOADS
from fedq.cli import app
from fedq.stack import Stack
from tests.integration.conftest import Team
from tests.integration.kubelet import Kubelet, serving
from tests.integration.test_lifecycle import says, submit, until

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass
class Pages:
    """The manager's pages of logs, over TLS."""

    url: str
    ca: Path


@pytest.fixture(scope="module")
def pages(stack: Stack) -> Iterator[Pages]:
    """The manager serves them, and copies that ended are kept."""
    home = stack.rig.home
    (ca,) = home.rglob("ca.crt")
    pem = next(path for path in home.rglob("server.pem") if stack.rig.management in str(path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    stack.rig.stop_process("manager")
    stack.start_manager(
        "in-process",
        FEDQ_READ_LISTEN=listen,
        FEDQ_READ_CERT=str(pem),
        FEDQ_READ_KEY=str(pem),
        FEDQ_KEEP_FINISHED_S="600",
    )
    stack.wait_active()
    try:
        yield Pages(f"https://{listen}", ca)
    finally:
        stack.rig.stop_process("manager")
        stack.start_manager()


def person(stack: Stack, team: str, name: str, rules: list[Json], folder: Path) -> Path:
    """A kubeconfig of a ServiceAccount that may do this in its namespace, and nothing else."""
    meta = {"name": name, "namespace": team}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": team}
    stack.apply(
        stack.rig.management,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": rules},
            {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": meta, "roleRef": ref,
             "subjects": [subject]},
        ],
    )  # fmt: skip
    management = stack.rig.management
    token = stack.rig.kubectl(management, "create", "token", name, "-n", team).strip()
    config = yaml.safe_load(stack.rig.kubeconfig(management).read_text())
    config["users"] = [{"name": name, "user": {"token": token}}]
    config["contexts"] = [
        {"name": name, "context": {"cluster": config["clusters"][0]["name"], "user": name}}
    ]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**config, "current-context": name}))
    return path


async def fedq(*args: str) -> Result:
    """Run the command beside this loop."""
    return await asyncio.to_thread(CliRunner().invoke, app, args)


@pytest.mark.timeout(600)
async def test_logs_and_events_of_a_job(
    stack: Stack, pages: Pages, team: Team, tmp_path: Path
) -> None:
    """Directly for an admin; through the manager for who may get pods/log here; not for others.
    They are there after the job has ended, until a new one of its name comes.
    """
    reads = [{"apiGroups": [""], "resources": ["pods/log", "events"], "verbs": ["get"]}]
    ann = person(stack, team.name, "ann", reads, tmp_path)
    bob = person(stack, team.name, "bob", [], tmp_path)
    admin = stack.rig.kubeconfig(stack.rig.management)
    through = ("--manager", pages.url, "--manager-ca", str(pages.ca))
    kubelet = Kubelet()
    pem = next(stack.rig.home.rglob("server.pem"))
    async with observing(stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("train", seconds=8, pods=2))
        await observer.wait("running", 1)
        workload = await until(management, WORKLOADS, team.name, "train", says("Admitted"))
        cluster = workload["status"]["clusterName"]
        worker, about = clients[cluster], f"{team.name}/train, attempt 1 on cluster {cluster}"
        for _ in range(2):
            await until(worker, PODS, team.name, "train",
                        lambda pod: pod.get("status", {}).get("phase") == "Running")  # fmt: skip
        pods = (await worker.list(PODS, team.name)).items
        keys = [(team.name, str(pod["metadata"]["name"]), "main") for pod in pods]
        with serving(kubelet, pem) as port:
            for node in {pod["spec"]["nodeName"] for pod in pods}:
                status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                          "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}  # fmt: skip
                await worker.patch(NODES, node, {"status": status}, subresource="status")
            for key in keys:
                kubelet.more(key, f"hello from {key[1]}\n".encode())

            found = await fedq("logs", "train", "-n", team.name, "--kubeconfig", str(admin))
            assert sorted(found.stdout.splitlines()) == sorted(
                f"[{pod}/main] hello from {pod}" for _, pod, _ in keys
            ), found.stderr
            assert about in found.stderr

            base = ("train", "-n", team.name, "--kubeconfig")
            found = await fedq("logs", *base, str(ann), *through, "--pod", keys[0][1])
            assert found.stdout == f"hello from {keys[0][1]}\n", found.stderr
            assert about in found.stderr
            refused = await fedq("logs", *base, str(bob), *through)
            assert refused.exit_code == 1
            assert "may not get pods/log" in refused.stderr
            direct = await fedq("logs", *base, str(ann))
            assert direct.exit_code == 1
            events = await fedq("events", *base, str(ann), *through, "-o", "json")
            told = {(e["reason"], e["object"].partition("/")[0]) for e in json.loads(events.stdout)}
            assert ("SuccessfulCreate", "job") in told, events.stderr

            following = asyncio.create_task(fedq("logs", *base, str(ann), *through, "-f"))
            await observer.wait("complete", 1)
            for key in keys:
                kubelet.more(key, b"bye\n")
                kubelet.ended(key)
            lines = (await following).stdout.splitlines()
            assert sorted(line for line in lines if line.endswith("bye")) == sorted(
                f"[{pod}/main] bye" for _, pod, _ in keys
            )

            await until(management, WORKLOADS, team.name, "train", says("Finished"))
            kept = await fedq("logs", *base, str(ann), *through, "--tail", "1", "--pod", keys[1][1])
            assert kept.stdout == "bye\n", kept.stderr
            assert any("tailLines=1" in path for path in kubelet.asked)
            none = await fedq("logs", *base, str(ann), *through, "--previous")
            assert "previous terminated container" in none.stderr

        await management.delete(JOBS, "train", team.name)
        await submit(clients, observer, team.job("train", seconds=1))
        await until(management, JOBS, team.name, "train", says("Complete"))


@pytest.mark.timeout(180)
async def test_pods_that_find_no_node(stack: Stack, team: Team) -> None:
    """What is wrong stands in the Workload, and not one pod on the management cluster."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        job = team.job("never")
        job["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
        await submit(clients, observer, job)
        told = await until(
            management, WORKLOADS, team.name, "never",
            lambda w: "Unschedulable" in (w.get("status") or {}).get("fedq", {}).get("pods", ""),
        )  # fmt: skip
        assert told["status"]["fedq"]["pods"].startswith("1 Pending: Unschedulable: 0/")
        assert (await management.list(PODS, team.name)).items == []
        await management.delete(JOBS, "never", team.name)
