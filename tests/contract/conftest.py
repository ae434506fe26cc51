"""The contract suite's two servers: the fake of the unit tests and a real API server."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

import federation.edge.kube as kube_module
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint, parse_untrusted
from federation.edge.resources import NAMESPACES
from tests.fakes import kube_api, light, links
from tests.fakes.kube_api import BUILT_IN, FakeKube


@pytest.fixture(params=["fake", "light", pytest.param("real", marks=pytest.mark.rig)])
async def kube(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubeClient]:
    """A client of a cluster that has none of our CRDs where that can be had (the fakes). `light` is
    the way of the simulation: over a link, with requests that are no HTTP.
    """
    if request.param != "real":
        transport: httpx.AsyncBaseTransport = (fake := FakeKube(BUILT_IN))
        if request.param == "light":
            for module in (kube_module, kube_api, links):
                monkeypatch.setattr(module, "httpx", light)
            transport = links.Link(fake, random.Random(1))
        client = KubeClient(Endpoint("https://fake", name="contract"), transport=transport)
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
