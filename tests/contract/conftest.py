"""The contract suite's two servers: the fake of the unit tests and a real API server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint, parse_untrusted
from federation.edge.resources import NAMESPACES
from tests.fakes.kube_api import BUILT_IN, FakeKube


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.rig)])
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[KubeClient]:
    """A client of a cluster that has none of our CRDs where that can be had (the fake)."""
    if request.param == "fake":
        fake = FakeKube(BUILT_IN)
        client = KubeClient(Endpoint("https://fake", name="contract"), transport=fake)
    else:
        rig = request.getfixturevalue("rig")
        config = rig.kubeconfig("management").read_bytes()
        client = KubeClient(parse_untrusted(config, "contract"))
    async with client:
        yield client


@pytest.fixture
async def ns(kube: KubeClient) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    made = await kube.create(NAMESPACES, {"metadata": {"name": f"contract-{uuid.uuid4().hex[:8]}"}})
    name = made["metadata"]["name"]
    yield name
    await kube.delete(NAMESPACES, name)
