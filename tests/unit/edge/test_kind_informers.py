"""What a cluster says that it serves, whatever answers in its place."""

from __future__ import annotations

import httpx
import pytest

from federation.edge.errors import ApiError
from federation.edge.kind_informers import plurals, served_versions
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint


def answering(body: bytes) -> KubeClient:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    return KubeClient(Endpoint("https://fake", name="w"), transport=transport)


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"groups": ['])
async def test_an_answer_that_is_no_discovery_is_an_error_of_the_cluster(body: bytes) -> None:
    """It is asked again later, like one that does not answer."""
    with pytest.raises(ApiError, match="is no JSON"):
        await served_versions(answering(body))


@pytest.mark.parametrize("body", [b"[]", b"3", b'{"groups": [3, {"versions": 3}], "resources": 3}'])
async def test_what_makes_no_sense_serves_nothing(body: bytes) -> None:
    assert await served_versions(answering(body)) == set()
    assert await plurals(answering(body), "g", "v1") == set()


async def test_what_is_served() -> None:
    body = (
        b'{"groups": [{"name": "g", "versions": [{"version": "v1"}]}],'
        b' "resources": [{"name": "jobs"}]}'
    )
    assert await served_versions(answering(body)) == {("g", "v1")}
    assert await plurals(answering(body), "g", "v1") == {"jobs"}
