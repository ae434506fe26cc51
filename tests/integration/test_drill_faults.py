"""Parts of drills that take real API servers, or a real manager, to be what they say."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator

import pytest

from federation.api.access import kubeconfig_secret
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY, ORIGIN_CONFIGMAP
from federation.edge.errors import NotFound, Unauthorized
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint, parse_untrusted
from federation.edge.resources import CONFIGMAPS, JOBS, PODS, SECRETS
from fedq.connect import Cluster
from fedq.drill import real
from fedq.drill.faults.copied_origin import NAME, refused_manager
from fedq.drill.faults.credentials import bad_token
from fedq.drill.inventory import take
from fedq.drill.result import Outcome
from fedq.rig.rig import Rig
from fedq.stack import Stack
from tests.integration.conftest import Team
from tests.integration.kind_objects import until

WORKER = "worker-1"


def admin(rig: Rig, cluster: str) -> KubeClient:
    """As the drills look at a cluster."""
    return KubeClient(load_endpoint(rig.kubeconfig(cluster)))


@contextlib.asynccontextmanager
async def as_manager(home: KubeClient) -> AsyncIterator[KubeClient]:
    """With what the kubeconfig Secret of the worker says now."""
    secret = await home.get(SECRETS, kubeconfig_secret(WORKER), FEDQ_NAMESPACE)
    text = base64.b64decode(secret["data"][KUBECONFIG_KEY])
    async with KubeClient(parse_untrusted(text, WORKER)) as client:
        yield client


async def test_a_bad_token_is_refused_by_the_worker_and_good_again(agents: Stack) -> None:
    """401, and no trouble of the network; before and after it the manager may do its work."""
    async with admin(agents.rig, agents.rig.management) as home:
        async with as_manager(home) as client:
            await client.list(JOBS)
        async with bad_token(home, WORKER), as_manager(home) as client:
            with pytest.raises(Unauthorized):
                await client.list(JOBS)
        async with as_manager(home) as client:
            await client.list(JOBS)


@pytest.mark.timeout(240)
async def test_a_manager_on_a_copy_of_the_management_cluster_refuses_to_run(stack: Stack) -> None:
    """It ends and says why; neither it nor the copied origin is there afterwards."""
    rig = stack.rig
    async with admin(rig, rig.management) as home, admin(rig, WORKER) as other:
        said = await refused_manager(stack, home, other, WORKER)
        assert "was copied from another management cluster" in said
        assert rig.process(NAME) is None
        with pytest.raises(NotFound):
            await other.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)


@pytest.mark.parametrize("killed", [False, True])
async def test_a_drill_of_real_clusters_judges_by_pods_of_the_workers(
    team: Team, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """It finds those of a job by what its template bears there, and one that was replaced, which no
    status of the manager tells.
    """
    rig = team.stack.rig
    monkeypatch.setattr(real, "WATCHED_S", 5.0)
    cordon = next(drill for drill in real.REAL if drill.name == "cordon")
    async with admin(rig, rig.management) as home:
        cluster = Cluster(home, team.name, rig)
        made = await home.create(JOBS, team.job("long", seconds=60))
        await until(
            home, JOBS, (team.name, "long"), lambda job: (job.get("status") or {}).get("ready")
        )
        found = (await take(cluster, behind=True)).pods.values()
        [pod] = [pod for pod in found if pod.job == made["metadata"]["uid"]]
        assert pod.state == "Running"
        begun = asyncio.Event()

        def tell(text: str) -> None:
            if "is cordoned" in text:
                begun.set()

        drill = asyncio.create_task(real.run_real(cordon, cluster, pod.cluster, tell))
        await begun.wait()
        if killed:
            space, _, name = pod.name.partition("/")
            async with admin(rig, pod.cluster) as worker:
                await worker.delete(PODS, name, space)
        result = await drill
        await home.delete(JOBS, "long", team.name)
    assert result.outcome is (Outcome.FAILED if killed else Outcome.PASSED), result.reasons
    assert any(pod.name in reason for reason in result.reasons) is killed
