"""Dispatchers that a Configuration names, on real API servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.edge.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from fedq.stack import Stack
from tests.integration.conftest import Team
from tests.integration.kind_objects import until
from tests.integration.test_kinds import clients, condition
from tests.integration.test_placement import checked

Json = dict[str, Any]
ROUND_S = 4.0


@pytest.fixture
def incremental(stack: Stack, tmp_path: Path) -> Iterator[None]:
    """The programs with the incremental dispatcher, one cluster in each round."""
    config = tmp_path / "configuration.yaml"
    rounds = {"stepSize": 1, "roundDuration": f"{ROUND_S:g}s"}
    body = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "multiKueue": {
            "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
            "incrementalDispatcherConfig": rounds,
        },
    }
    config.write_text(yaml.safe_dump(body))
    stack.start(config=config)
    try:
        yield
    finally:
        stack.stop()
        (stack.rig.data_dir("configuration") / "configuration.yaml").unlink()
        stack.start()


@pytest.mark.timeout(240)
async def test_incremental(incremental: None, team: Team) -> None:
    """The clusters of the config one after the other, in its order: the next one when the round is
    over and no nominee had room, at once when the only one never can.
    """
    stack, name = team.stack, team.name
    first, second = reversed(stack.rig.workers)
    stack.apply(stack.rig.management, checked(name, [first, second]))
    names = {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}
    async with clients(stack) as found:
        management = found["management"]
        await management.patch(CLUSTER_QUEUES, name, {"spec": names})

        async def submit(job: str, cpu: int) -> None:
            await management.create(JOBS, team.job(job, seconds=60, cpu=str(cpu)))

        async def workload(job: str, holds: Any) -> Json:
            def of_it(obj: Json) -> bool:
                owner = obj["metadata"]["ownerReferences"][0]["name"]
                return owner == job and holds(obj.get("status") or {})

            return await until(management, WORKLOADS, (name, ""), of_it)

        def nominated(*clusters: str) -> Any:
            return lambda status: status.get("nominatedClusterNames") == list(clusters)

        def runs(status: Json) -> bool:
            return condition("Admitted")({"status": status})

        await submit("near", 15)  # of the 20 that each has
        assert (await workload("near", runs))["status"]["clusterName"] == first

        await submit("next", 15)
        begun = (await workload("next", nominated(first)))["status"]["fedq"]["nominatedAt"]
        told = await workload("next", nominated(first, second))
        assert _seconds(told["status"]["fedq"]["nominatedAt"]) - _seconds(begun) >= ROUND_S - 1
        assert (await workload("next", runs))["status"]["clusterName"] == second

        smaller = {"spec": _quota(4)}
        await found[first].patch(CLUSTER_QUEUES, name, smaller)
        await management.delete(JOBS, "next", name)
        await submit("large", 16)
        moved = await workload("large", runs)
        assert moved["status"]["clusterName"] == second


def _quota(cpu: int) -> Json:
    resource = {"name": "cpu", "nominalQuota": cpu}
    flavors = [{"name": "default", "resources": [resource]}]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
