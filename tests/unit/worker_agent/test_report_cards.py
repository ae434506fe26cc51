"""Which queues make an agent tell what is free of its cards."""

from __future__ import annotations

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CLUSTER_QUEUES
from tests.unit.worker_agent.test_devices import Cards, until
from worker_agent.report import Reporter


@pytest.mark.parametrize(
    ("resource", "is_told"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpumem", True),
        ("nvidia.com/total-gpumem", True),
        ("nvidia.com/total-gpucores", True),
        ("cpu", False),
    ],
)
async def test_a_quota_for_any_measure_of_cards(resource: str, is_told: bool) -> None:
    """One is enough, totals too; who has no quota for cards is spared watching nodes and pods."""
    worker = Cards(1)
    quota = [{"name": resource, "nominalQuota": 1000}]
    group = {"coveredResources": [resource], "flavors": [{"name": "f", "resources": quota}]}
    worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})
    async with worker.running() as agent:
        client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
        reporter = Reporter(client, agent.state.catalog, agent, "a")
        if is_told:
            await until(lambda: reporter.status()["placement"] is not None, "cards")
            assert reporter.status()["placement"]["classes"]
        else:
            await worker.at_rest()
            assert reporter.status()["placement"] is None
