"""Pods that Volcano makes of a copy, which the agent lets go one by one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from federation.api.names import Label, Mirror, Option
from federation.core.types import FlavorResource
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import PODS, resource_of
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.leased import Leased
from tests.unit.worker_agent.support import mirrored
from worker_agent.admitted_pods import AdmittedPods

Json = dict[str, Any]
VOLCANO = KINDS["Job.v1alpha1.batch.volcano.sh"]
JOBS = resource_of(VOLCANO)
GATE = {"name": "kueue.x-k8s.io/admission"}
GPU = FlavorResource("f", "gpu")


class Gang:
    """A worker with a copy of two pods; the test makes these as Volcano does. `policy` says what
    becomes of it when the lease ends.
    """

    def __init__(self, nominal: int = 4, policy: str = "") -> None:
        self.worker = Leased(nominal)
        self.fake = self.worker.fake
        self.fake.resources.append(JOBS)
        self.worker.kinds = (VOLCANO,)
        self.worker.settings = replace(self.worker.settings, kinds=KINDS)
        notes = {Option.ON_DISCONNECT.value: policy} if policy else {}
        body = mirrored("v", annotations=notes)
        pods = {"schedulingGates": [GATE], **body["spec"]["template"]["spec"]}
        task = {"name": "main", "replicas": 2, "template": {"spec": pods}}
        body |= {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
        body["spec"] = {"minAvailable": 2, "tasks": [task]}
        self.uid = str(self.fake.create(JOBS, body)["metadata"]["uid"])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.worker.running() as agent:
            client = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
            task = asyncio.create_task(AdmittedPods(client, agent).run())
            agent.state.on_change(self.uid)  # it is made before anything is read
            try:
                yield
                assert not task.done(), task
            finally:
                await stop([task])
                await client.aclose()

    def make(self, index: int, name: str = "", *, owner: str = "", **spec: Any) -> None:
        told = {"volcano.sh/task-spec": "main", "volcano.sh/task-index": str(index)}
        marks = {Label.MULTIKUEUE_WORKER_POD.value: "true", "volcano.sh/job-name": "v"}
        meta = {
            "name": name or f"v-main-{index}",
            "namespace": "team",
            "labels": marks,
            "annotations": told,
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "v",
                    "uid": owner or self.uid,
                    "controller": True,
                }
            ],
        }
        whole = {"schedulingGates": [GATE], "containers": [], **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}
        self.fake.create(PODS, body)

    def gone(self, *names: str) -> bool:
        """Whether they were let go, to the nodes of their flavor."""
        specs = [self.fake.get(PODS, name, "team")["spec"] for name in names]
        there = all(spec.get("nodeSelector") == {"card": "a100"} for spec in specs)
        return there and not any(spec["schedulingGates"] for spec in specs)

    def waits(self, name: str) -> bool:
        spec = self.fake.get(PODS, name, "team")["spec"]
        return spec["schedulingGates"] == [GATE] and "nodeSelector" not in spec

    def noted(self, key: Mirror) -> str:
        meta = self.fake.get(JOBS, "v", "team")["metadata"]
        return str(meta["annotations"].get(key.value, ""))


async def test_pods_are_let_go_when_their_copy_is_admitted() -> None:
    """Those that were there before, those that come later, and none beside them."""
    gang = Gang()
    gang.make(0)
    async with gang.running():
        await until(lambda: gang.gone("v-main-0"), "the first one")
        assert gang.worker.agent.tree.usage("cq")[GPU] == 2
        gang.make(2)
        gang.make(0, "foreign", owner="other")
        gang.make(1)
        await until(lambda: gang.gone("v-main-1"), "the second one")
        assert gang.waits("v-main-2")
        assert gang.waits("foreign")
        gang.fake.delete(PODS, "v-main-1", "team")
        gang.make(1)
        await until(lambda: gang.gone("v-main-1"), "the one in its place")
    gang.fake.delete(PODS, "v-main-0", "team")
    gang.make(0)
    async with gang.running():
        await until(lambda: gang.gone("v-main-0"), "after a restart of the agent")


async def test_pods_of_a_copy_that_is_refused_wait() -> None:
    """There is no room for both."""
    gang = Gang(nominal=1)
    gang.make(0)
    gang.make(1)
    async with gang.running():
        await until(lambda: bool(gang.noted(Mirror.REFUSED)), "an answer")
        await gang.worker.at_rest()
    assert gang.waits("v-main-0")
    assert gang.waits("v-main-1")


async def test_a_write_that_fails_is_tried_again() -> None:
    gang = Gang()
    gang.fake.fail(lambda r: r.method == "PATCH" and "/pods/" in r.url.path, status=500)
    gang.make(0)
    async with gang.running():
        await until(lambda: gang.gone("v-main-0"), "let go")


async def test_after_the_lease_none_is_let_go() -> None:
    """Of a copy that has to stop."""
    gang = Gang()
    async with gang.running():
        gang.make(0)
        await until(lambda: gang.gone("v-main-0"), "in time")
        gang.fake.fail(lambda r: r.method in {"PATCH", "DELETE"} and "/jobs/" in r.url.path)
        gang.worker.ends()
        gang.make(1)
        await gang.worker.at_rest()
        assert gang.waits("v-main-1")


async def test_one_that_goes_on_without_a_lease_gets_its_pods() -> None:
    gang = Gang(policy="keep")
    async with gang.running():
        gang.make(0)
        await until(lambda: gang.gone("v-main-0"), "in time")
        gang.worker.ends()
        gang.make(1)
        await until(lambda: gang.gone("v-main-1"), "it may run on")
