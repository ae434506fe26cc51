"""What the Leases tell of the management cluster itself."""

from __future__ import annotations

import asyncio
import copy

import pytest

from federation.api.names import FEDQ_NAMESPACE
from federation.core.failover import Timings
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import LEASES
from manager.clock import Clock
from manager.leases import Leases, StoreRestored
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop, until


@pytest.mark.parametrize("restored", [False, True])
async def test_the_store_of_the_management_cluster_was_restored(restored: bool) -> None:
    """What a manager remembers is of a time that never was: it ends, and starts anew."""
    home = FakeKube(namespaces=(FEDQ_NAMESPACE,))
    home.create(LEASES, {"metadata": {"name": "a", "namespace": FEDQ_NAMESPACE}, "spec": {}})
    client = KubeClient(Endpoint("https://home", name="home"), transport=home)
    leases = Leases(client, Timings(), Clock())
    task = asyncio.create_task(leases.informer.run())
    await leases.informer.synced.wait()

    backup = copy.deepcopy(home.objects.data), home.objects.version
    await renewed(home, leases, "one")
    if restored:
        home.objects.data, home.objects.version = backup
        # What an API server says to a version that is to come: Too large resource version.
        home.fail(lambda request: request.url.params.get("watch") == "1", status=504)
    home.drop_watches()
    if restored:
        with pytest.raises(StoreRestored, match=r"version \d+ after \d+"):
            async with asyncio.timeout(10):
                await task
    else:
        await renewed(home, leases, "another")
        await stop([task])
    await client.aclose()


async def renewed(home: FakeKube, leases: Leases, when: str) -> None:
    """Renew a Lease, and wait until that is seen."""
    home.merge(LEASES, "a", {"spec": {"renewTime": when}}, FEDQ_NAMESPACE)
    await until(lambda: (seen := leases.watches["a"].seen) and seen.renewed == when)
