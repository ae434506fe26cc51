"""Two managers never share an origin."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from federation.api.names import ORIGIN_CONFIGMAP
from federation.edge import resources as r
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from manager.origin import ForeignOrigin, ensure_origin
from tests.fakes.kube_api import FakeKube

SYSTEM = "fedq-system"


@pytest.fixture
def home() -> FakeKube:
    """A management cluster."""
    fake = FakeKube()
    fake.create(r.NAMESPACES, {"metadata": {"name": SYSTEM}})
    return fake


@pytest.fixture
async def client(home: FakeKube) -> AsyncIterator[KubeClient]:
    """The manager's."""
    async with KubeClient(Endpoint("https://home"), transport=home) as found:
        yield found


def give(kube: FakeKube, **data: str) -> None:
    """An origin that is there already."""
    meta = {"name": ORIGIN_CONFIGMAP, "namespace": SYSTEM}
    kube.create(r.CONFIGMAPS, {"metadata": meta, "data": data})


async def test_it_is_made_once_for_this_cluster(home: FakeKube, client: KubeClient) -> None:
    """And found again after a restart."""
    first = await ensure_origin(client)
    assert await ensure_origin(client) == first
    kept = home.get(r.CONFIGMAPS, ORIGIN_CONFIGMAP, SYSTEM)["data"]
    assert kept == {
        "origin": first,
        "cluster": home.get(r.NAMESPACES, SYSTEM)["metadata"]["uid"],
    }


async def test_one_of_an_earlier_version_gets_its_cluster(
    home: FakeKube, client: KubeClient
) -> None:
    """It stays as it is."""
    give(home, origin="o-1")
    assert await ensure_origin(client) == "o-1"
    kept = home.get(r.CONFIGMAPS, ORIGIN_CONFIGMAP, SYSTEM)["data"]
    assert kept["cluster"] == home.get(r.NAMESPACES, SYSTEM)["metadata"]["uid"]


async def test_one_that_was_copied_from_another_cluster_is_refused(
    home: FakeKube, client: KubeClient
) -> None:
    """With what to do about it; nothing is changed."""
    give(home, origin="o-1", cluster="uid-of-another")
    own = home.get(r.NAMESPACES, SYSTEM)["metadata"]["uid"]
    with pytest.raises(ForeignOrigin, match=f"Delete the ConfigMap .*data.cluster to {own}"):
        await ensure_origin(client)
    kept = home.get(r.CONFIGMAPS, ORIGIN_CONFIGMAP, SYSTEM)["data"]
    assert kept == {"origin": "o-1", "cluster": "uid-of-another"}
