"""Jobs of other kinds than batch/v1 Job on real API servers while they wait and run: commands,
edits, CRDs that are missing somewhere, pods in excess.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import Result
from tenacity import AsyncRetrying, retry_if_result, wait_fixed
from typer.testing import CliRunner

from federation.edge.errors import NotFound
from federation.edge.resources import EVENTS, PODS, WORKLOADS, resource_of
from fedq.cli import app
from fedq.stack import Stack
from tests.integration.conftest import Team
from tests.integration.kind_objects import (
    crd,
    create,
    gone,
    job_set,
    of,
    row,
    say,
    says,
    template,
    until,
)
from tests.integration.test_kinds import clients, define, gates, placed, pod

Json = dict[str, Any]
JOB_SETS = resource_of(row("JobSet"))


async def fedq(team: Team, *args: str) -> Result:
    """Run a command as the admin of the management cluster, beside this loop."""
    config = team.stack.rig.kubeconfig(team.stack.rig.management)
    rest = ("-n", team.name, "--kubeconfig", str(config))
    return await asyncio.to_thread(CliRunner().invoke, app, [*args, *rest])


def of_the_copy(copy: Json, number: int) -> Json:
    """A pod as the controllers of a JobSet make it of one of its templates."""
    made = copy["spec"]["replicatedJobs"][number]["template"]["spec"]["template"]
    meta = made["metadata"]
    head = {"name": f"train-{number}", "namespace": copy["metadata"]["namespace"]}
    notes = {key: meta[key] for key in ("labels", "annotations") if key in meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head | notes, "spec": made["spec"]}


@pytest.mark.timeout(240)
async def test_commands_with_a_job_set(team: Team) -> None:
    """It is listed and explained, its events are read through, and it is moved."""
    define(team.stack, "JobSet")
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "train")
        await create(management, JOB_SETS, job_set("train", team.name))
        cluster, _ = await placed(found, team.name)
        worker = found[cluster]
        copy = await until(worker, JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        await say(worker, JOB_SETS, key, {"conditions": [says("Suspended", "False")]})
        await until(management, JOB_SETS, key, lambda o: o.get("status"))

        listed = await fedq(team, "get", "jobs", "-o", "json")
        (told,) = json.loads(listed.stdout)
        assert (told["kind"], told["name"], told["cluster"]) == ("JobSet", "train", cluster)
        said = await fedq(team, "why", "jobset/train")
        assert said.stdout.startswith(f"JobSet {team.name}/train"), said.output
        assert f"cluster {cluster}" in said.stdout

        made = await worker.create(PODS, of_the_copy(copy, 0))
        about = {"apiVersion": "v1", "kind": "Pod", "name": made["metadata"]["name"]}
        about |= {"namespace": team.name, "uid": made["metadata"]["uid"]}
        event = {
            "metadata": {"name": "pulled.1", "namespace": team.name},
            "involvedObject": about,
            "reason": "PulledByTest",
            "message": "an image",
            "type": "Normal",
        }
        await worker.create(EVENTS, event)
        events = await fedq(team, "events", "jobset/train", "-o", "json")
        assert "PulledByTest" in {e["reason"] for e in json.loads(events.stdout)}, events.stderr

        other = next(name for name in team.stack.rig.workers if name != cluster)
        moved = await fedq(team, "move", "jobset/train", "--to", other)
        assert moved.stdout.startswith(f"JobSet {team.name}/train is stopped on {cluster}")
        now, workload = await placed(found, team.name, attempt=2)
        assert now == other
        await gone(worker, JOB_SETS, key)
        await until(found[other], JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        assert workload["status"]["fedq"]["cluster"] == other
        await management.delete(JOB_SETS, "train", team.name)
        await gone(found[other], JOB_SETS, key)


@pytest.mark.timeout(180)
async def test_what_a_ray_service_serves_is_pushed(team: Team) -> None:
    """To the copy that runs, in the same attempt; other fields are left for the next one."""
    resource = define(team.stack, "RayService")
    cluster = {"headGroupSpec": {"template": template(), "rayStartParams": {}}}
    spec = {"serveConfigV2": "one", "rayClusterConfig": cluster}
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "serve")
        made = await create(management, resource, of(row("RayService"), "serve", team.name, spec))
        assert made["spec"]["rayClusterConfig"]["suspend"] is True
        name, workload = await placed(found, team.name)
        worker = found[name]
        await until(
            worker, resource, key, lambda o: o["spec"]["rayClusterConfig"]["suspend"] is False
        )
        edit = {"serveConfigV2": "two", "rayClusterConfig": {"rayVersion": "9"}}
        await management.patch(resource, "serve", {"spec": edit}, team.name)
        copy = await until(worker, resource, key, lambda o: o["spec"]["serveConfigV2"] == "two")
        assert copy["spec"]["rayClusterConfig"]["suspend"] is False
        assert "rayVersion" not in copy["spec"]["rayClusterConfig"]
        same = await management.get(WORKLOADS, workload["metadata"]["name"], team.name)
        assert same["status"]["fedq"]["attempt"] == 1
        await management.delete(resource, "serve", team.name)
        await gone(worker, resource, key)


async def told_of(stack: Stack, cluster: str, kind: str) -> None:
    """Until the manager knows that a cluster does not serve a kind."""

    async def thinks_so() -> bool:
        page = await asyncio.to_thread(stack.page, "manager", "status")
        known = json.loads(page or b"{}").get("clusters", {}).get(cluster, {}).get("kinds")
        return known is None or kind in known

    await AsyncRetrying(retry=retry_if_result(bool), wait=wait_fixed(0.5))(thinks_so)


@pytest.mark.timeout(240)
async def test_a_cluster_without_the_crd_is_no_candidate(team: Team) -> None:
    """It is not asked, `fedq why` tells, and it becomes one when the CRD appears there."""
    stack, kind = team.stack, row("PaddleJob")
    first, second = stack.rig.workers
    stack.rig.kubectl(
        first, "delete", "crd", f"{kind.plural}.{kind.group}", "--ignore-not-found"
    )  # another test may have made it
    await told_of(stack, first, kind.name)
    for cluster in (stack.rig.management, second):
        stack.apply(cluster, [crd(kind)])
    resource = resource_of(kind)
    replicas = {"Master": {"template": template()}}

    def job(name: str, **notes: str) -> Json:
        body = of(kind, name, team.name, {"paddleReplicaSpecs": replicas})
        body["metadata"]["annotations"] = notes
        return body

    async with clients(stack) as found:
        management = found["management"]
        await create(management, resource, job("tied", **{"fedq.io/clusters": first}))
        missing = f"{first}: it does not serve {kind.name}: the CRD is missing there"
        await until(
            management,
            WORKLOADS,
            (team.name, ""),
            lambda o: missing in json.dumps(o.get("status") or {}),
        )
        said = await fedq(team, "why", "paddlejob/tied")
        assert missing in said.stdout, said.output

        await create(management, resource, job("free"))
        cluster, workload = await placed(found, team.name)
        assert (cluster, workload["status"]["fedq"]["attempt"]) == (second, 1)
        await management.delete(resource, "free", team.name)
        await gone(management, WORKLOADS, (team.name, workload["metadata"]["name"]))

        stack.apply(first, [crd(kind)])
        assert (await placed(found, team.name))[0] == first
        await management.delete(resource, "tied", team.name)


@pytest.mark.timeout(240)
async def test_pods_in_excess_and_a_pod_that_is_deleted(team: Team) -> None:
    """The first are neither copied nor disturb the group that runs; the second ends its run, and
    with another one it is queued again.
    """
    async with clients(team.stack) as found:
        management = found["management"]
        for name in ("g-a", "g-b"):
            await management.create(PODS, pod(name, team.name, group="g", total=2))
        cluster, workload = await placed(found, team.name)
        worker = found[cluster]
        for name in ("g-a", "g-b"):
            await until(worker, PODS, (team.name, name), lambda o: not gates(o))
        extra = await management.create(PODS, pod("g-0", team.name, group="g", total=2))
        assert gates(extra) == ["kueue.x-k8s.io/admission"]
        await say(worker, PODS, (team.name, "g-a"), {"phase": "Running", "reason": "later"})

        def shown(obj: Json) -> bool:
            return bool((obj.get("status") or {}).get("reason") == "later")

        await until(management, PODS, (team.name, "g-a"), shown)
        said = await fedq(team, "why", "pod/g-0")
        assert "group g has the 2 pods that belong to it without this one" in said.stdout
        same = await management.get(WORKLOADS, workload["metadata"]["name"], team.name)
        assert same["metadata"]["uid"] == workload["metadata"]["uid"]
        assert same["status"]["fedq"]["attempt"] == 1
        with pytest.raises(NotFound):
            await worker.get(PODS, "g-0", team.name)

        await management.delete(PODS, "g-b", team.name)
        await gone(worker, PODS, (team.name, "g-b"))
        await gone(worker, PODS, (team.name, "g-a"))
        await gone(management, WORKLOADS, (team.name, workload["metadata"]["name"]))
        await management.delete(PODS, "g-0", team.name)
        await management.create(PODS, pod("g-c", team.name, group="g", total=2))
        now, _ = await placed(found, team.name)
        for name in ("g-a", "g-c"):
            await until(found[now], PODS, (team.name, name), lambda o: not gates(o))
