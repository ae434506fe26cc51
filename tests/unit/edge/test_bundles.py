"""Pods of a group as one object: how a watch tells of it, and how it is written."""

from __future__ import annotations

from typing import Any

import pytest

from federation.edge.bundles import Bundles
from federation.edge.errors import AlreadyExists, Conflict, NotFound
from federation.edge.kind_objects import Groups
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import PODS
from federation.jobs.kinds.registry import KINDS
from tests.fakes.kube_api import FakeKube
from tests.unit.jobs.kinds.test_pods import pod

Json = dict[str, Any]


class Heard:
    """What a handler was told: the kind of event, and the names of the pods."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.last: Json = {}

    def on_list(self, items: Any, resource_version: str) -> None:
        self.told += [("LISTED", _names(item)) for item in items]

    def on_event(self, type: str, obj: Json) -> None:
        self.told.append((type, _names(obj)))
        self.last = obj


def _names(obj: Json) -> list[str]:
    return [found["metadata"]["name"] for found in obj["spec"]["pods"]]


def test_a_group_is_told_of_when_it_is_complete_and_gone_when_all_are() -> None:
    heard = Heard()
    bundles = Bundles(heard)
    one, two = pod("a", total=2, version=3), pod("b", total=2, version=4)
    bundles.on_list([one], "3")
    bundles.on_event("ADDED", two)
    assert heard.told == [("MODIFIED", ["a", "b"])]
    assert heard.last["metadata"]["resourceVersion"] == "4"
    bundles.on_event("DELETED", pod("a", total=2, version=6))
    assert heard.told[-1] == ("MODIFIED", ["b"])
    assert (heard.last["metadata"]["uid"], heard.last["metadata"]["resourceVersion"]) == (
        "u-a",
        "6",
    )
    bundles.on_event("DELETED", pod("b", total=2, version=7))
    assert heard.told[-1] == ("DELETED", [])
    assert heard.last["metadata"]["uid"] == "u-a"


def test_who_removes_them_hears_of_incomplete_ones() -> None:
    heard = Heard()
    Bundles(heard, partial=True).on_list([pod("b", total=2)], "5")
    assert heard.told == [("LISTED", ["b"])]


def test_a_copy_is_in_no_group_with_pods_of_its_cluster() -> None:
    heard = Heard()
    copy = pod("b", total=2, annotations={"fedq.io/local-uid": "x"})
    copy["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "o"
    Bundles(heard).on_list([pod("a", total=2), copy], "5")
    assert heard.told == []


@pytest.fixture
async def groups() -> Any:
    fake = FakeKube(namespaces=("team",))
    async with KubeClient(Endpoint("https://fake", name="w"), transport=fake) as client:
        yield Groups(client, KINDS["Pod.v1"]), fake


def body(*names: str, attempt: str = "1") -> Json:
    pods = []
    for name in names:
        made = pod(name, total=len(names), annotations={"fedq.io/attempt": attempt})
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            del made["metadata"][key]
        pods.append(made)
    head = {**pods[0]["metadata"], "annotations": {"fedq.io/refused": "no"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": {"pods": pods}}


async def test_a_group_is_created_once(groups: Any) -> None:
    """Again it is the same; what was noted on the bundle stands on its head; another attempt's
    pods are not taken for ours.
    """
    stored, fake = groups
    made = await stored.create(body("a", "b"), "team")
    again = await stored.create(body("a", "b"), "team")
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    assert fake.get(PODS, "a", "team")["metadata"]["annotations"]["fedq.io/refused"] == "no"
    assert "fedq.io/refused" not in fake.get(PODS, "b", "team")["metadata"]["annotations"]
    with pytest.raises(AlreadyExists):
        await stored.create(body("a", "b", attempt="2"), "team")


async def test_a_patch_reaches_each_pod_and_needs_the_version_that_was_seen(groups: Any) -> None:
    stored, _ = groups
    made = await stored.create(body("a", "b"), "team")
    seen = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    pods = {name: {"spec": {"schedulingGates": []}} for name in ("a", "b")}
    patch = {"metadata": {**seen, "annotations": {"n": "1"}}, "spec": {"pods": pods}}
    after = await stored.patch("a", patch, "team")
    assert [p["spec"]["schedulingGates"] for p in after["spec"]["pods"]] == [[], []]
    assert after["metadata"]["annotations"]["n"] == "1"
    with pytest.raises(Conflict):
        await stored.patch("a", patch, "team")


async def test_statuses_are_written_one_by_one(groups: Any) -> None:
    stored, fake = groups
    made = await stored.create(body("a", "b"), "team")
    seen = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    status = {"pods": {"b": {"phase": "Running"}}}
    after = await stored.put_status("a", seen, status, "team")
    assert after["status"]["pods"]["b"] == {"phase": "Running"}
    assert fake.get(PODS, "b", "team")["status"] == {"phase": "Running"}


async def test_a_group_is_deleted_with_its_head_last(groups: Any) -> None:
    stored, fake = groups
    made = await stored.create(body("a", "b", "c"), "team")
    with pytest.raises(Conflict):
        await stored.delete("a", "team", uid=made["metadata"]["uid"], resource_version="1")
    fake.log.clear()
    with pytest.raises(NotFound):
        await stored.delete("a", "team", uid=made["metadata"]["uid"])
    deleted = [path.rpartition("/")[2] for method, path in fake.log if method == "DELETE"]
    assert sorted(deleted) == ["a", "b", "c"]
    assert deleted[-1] == "a"
    assert not fake.items(PODS)
