"""`fedq lint` refuses what a real API server with Fedq's CRDs and policies refuses, and no more."""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from federation.core.card_shares import CARD_MEMORY
from federation.edge.errors import Forbidden, Invalid, NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import NAMESPACES
from fedq.kinds import resource_of
from fedq.lint.finding import Severity
from fedq.stack import Stack
from tests.unit.fedq.lint_support import lint_json
from tests.unit.fedq.test_lint_refused import CASES

if TYPE_CHECKING:
    from fedq.rig.rig import Rig

Json = dict[str, Any]


def _of_a_server(body: Json) -> bool:
    return isinstance(body.get("kind"), str) and not isinstance(
        resource_of(str(body.get("apiVersion")), body["kind"]), str
    )


def _stricter(rule: str, body: Json) -> bool:
    """Where lint says more: of amounts that Fedq cannot count, of cards (a request for them, what
    a flavor says of its own), and of Workloads' pod templates apart from labels and requests, which
    the CRDs take as they are.
    """
    text = repr(body)
    of_a_flavor = body["kind"] == "ResourceFlavor" and CARD_MEMORY in text
    of_templates = body["kind"] == "Workload" and "podSets" in text
    return (
        "1e999" in text
        or rule == "card-request"
        or (rule == "bad-value" and (of_templates or of_a_flavor))
    )


@pytest.mark.timeout(300)
async def test_lint_and_the_api_server_refuse_the_same(rig: Rig) -> None:
    """Every object of the table of refusals, good and bad, is created for real."""
    Stack(rig).install()
    space = f"lint-{uuid.uuid4().hex[:8]}"
    differing = []
    config = parse_untrusted(rig.kubeconfig("management").read_bytes(), "lint")
    async with KubeClient(config) as client:
        await client.create(NAMESPACES, {"metadata": {"name": space}})
        for rule, *objects in CASES:
            for body in filter(_of_a_server, objects):
                ours = any(x.severity is Severity.REFUSED for x in lint_json(body))
                theirs = await _refused(client, body, space)
                if ours != theirs and not (ours and _stricter(rule, body)):
                    differing.append((rule, f"lint {ours}, server {theirs}", body))
        await client.delete(NAMESPACES, space)
    assert not differing


async def _refused(client: KubeClient, body: Json, space: str) -> bool:
    """Whether the server refuses to create it; it is deleted again."""
    resource = resource_of(body["apiVersion"], body["kind"])
    assert not isinstance(resource, str)
    body = copy.deepcopy(body)
    if resource.namespaced and body["metadata"].get("namespace") == "team":
        body["metadata"]["namespace"] = space
    place = body["metadata"].get("namespace") or "default" if resource.namespaced else None
    try:
        made = await client.create(resource, body, place)
    except (Invalid, Forbidden, NotFound):  # schema, admission policy, impossible namespace
        return True
    await client.delete(resource, made["metadata"]["name"], place)
    return False
