"""Pods of a group as one object: how a watch tells of it, and how it is written."""

from __future__ import annotations

from typing import Any

import pytest

from federation.edge.bundles import Bundles
from federation.edge.errors import AlreadyExists, Conflict, NotFound
from federation.edge.kind_objects import Groups, Whose
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import PODS
from federation.jobs.kinds.pod_groups import bundle
from federation.jobs.kinds.registry import KINDS
from tests.fakes.kube_api import FakeKube
from tests.unit.jobs.kinds.test_pods import pod
from worker_agent.facts import worker_job
from worker_agent.writes import Jobs

Json = dict[str, Any]


class Heard:
    """What a handler was told: the kind of event, and the names of the pods."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.last: Json = {}
        self.versions: list[str] = []
        self.last_uid = ""

    def on_list(self, items: Any, resource_version: str) -> None:
        self.told += [("LISTED", _names(item)) for item in items]
        self.last_uid = items[-1]["metadata"]["uid"] if items else ""

    def on_event(self, type: str, obj: Json) -> None:
        self.told.append((type, _names(obj)))
        self.last = obj
        self.versions.append(obj["metadata"]["resourceVersion"])


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


# Pods in excess


def dated(name: str, second: int, **more: Any) -> Json:
    made = pod(name, total=2, **more)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return made


EXCESS = [
    ("the oldest stay", [dated("a", 3), dated("b", 1), dated("c", 2)], ["b", "c"]),
    ("of equals the first by name", [dated("c", 1), dated("b", 1), dated("a", 1)], ["a", "b"]),
    (
        "first who has been let go",
        [dated("a", 1), dated("b", 2), dated("c", 3, gated=False)],
        ["a", "c"],
    ),
    (
        "and who is shown to have run elsewhere",
        [dated("a", 1), dated("b", 2), dated("c", 3, phase="Succeeded")],
        ["a", "c"],
    ),
]


@pytest.mark.parametrize(("pods", "kept"), [e[1:] for e in EXCESS], ids=[e[0] for e in EXCESS])
def test_a_group_has_no_more_pods_than_it_says(pods: list[Json], kept: list[str]) -> None:
    """Kueue's order."""
    heard = Heard()
    Bundles(heard).on_list(pods, "9")
    assert heard.told == [("LISTED", kept)]


def test_pods_in_excess_are_not_told_of() -> None:
    """Neither when they come, change and go, nor in place of one that is gone."""
    heard = Heard()
    bundles = Bundles(heard)
    bundles.on_list([dated("b", 1, version=3), dated("c", 1, version=4)], "5")
    for version, type in enumerate(("ADDED", "MODIFIED", "DELETED", "ADDED"), 6):
        bundles.on_event(type, dated("a", 1, version=version))
    assert heard.told == [("LISTED", ["b", "c"])]
    bundles.on_event("DELETED", dated("c", 1, version=11))
    assert heard.told[-1] == ("MODIFIED", ["b"])
    bundles.on_list([dated("a", 1, version=9), dated("b", 1, version=3)], "12")
    assert heard.told[-1] == ("LISTED", ["b"])
    bundles.on_event("ADDED", dated("d", 9, version=13))
    assert heard.told[-1] == ("MODIFIED", ["a", "b"])


# Pods that take the place of others

RUNS = {"annotations": {"fedq.io/runs": "true"}}
NEVER = {"annotations": {"kueue.x-k8s.io/retriable-in-group": "false"}}
REPLACED = [
    (
        "the next one",
        [dated("b", 1, phase="Running"), dated("c", 2, phase="Failed"), dated("d", 3)],
        ["b", "d"],
    ),
    (
        "the oldest of several",
        [dated("b", 1), dated("c", 2, phase="Failed"), dated("e", 3), dated("d", 4)],
        ["b", "e"],
    ),
    (
        "one that runs by now",
        [
            dated("b", 1, phase="Running"),
            dated("c", 2, phase="Failed"),
            dated("e", 3, phase="Running"),
            dated("d", 4),
        ],
        ["b", "e"],
    ),
    (
        "of one that took another's",
        [dated("b", 1), *(dated(n, 2, phase="Failed") for n in "cd"), dated("e", 4)],
        ["b", "e"],
    ),
    (
        "whatever its name",
        [dated("b", 1, phase="Running", **RUNS), dated("c", 2, phase="Failed"), dated("a", 3)],
        ["a", "b"],
    ),
    (
        "of a head that stands for the group",
        [dated("b", 1, phase="Failed", **RUNS), dated("c", 2, phase="Running"), dated("a", 3)],
        ["a", "b", "c"],
    ),
    (
        "not of a head that does not run any more",
        [dated("b", 1, phase="Failed"), dated("c", 2), dated("d", 3)],
        ["b", "c"],
    ),
    (
        "none that asks for something else",
        [dated("b", 1), dated("c", 2, phase="Failed"), dated("d", 3, cpu="2")],
        ["b", "c"],
    ),
    (
        "none in a group that is not to be retried",
        [dated("b", 1, **NEVER), dated("c", 2, phase="Failed"), dated("d", 3)],
        ["b", "c"],
    ),
    ("none that failed", [dated(n, i, phase="Failed") for i, n in enumerate("bcd")], ["b", "c"]),
]


@pytest.mark.parametrize(("pods", "kept"), [e[1:] for e in REPLACED], ids=[e[0] for e in REPLACED])
def test_who_takes_the_place_of_a_pod_that_failed(pods: list[Json], kept: list[str]) -> None:
    """The same for who has seen it happen, and for who comes to it later."""
    heard = Heard()
    bundles = Bundles(heard, held=True)
    bundles.on_list(pods, "9")
    assert heard.told == [("LISTED", kept)]
    again = Bundles(later := Heard(), held=True)
    for count in range(2, len(pods) + 1):
        again.on_list(pods[:count], str(count))
    assert later.told[-1] == ("LISTED", kept)
    assert later.last_uid == heard.last_uid == "u-b"


def test_a_pod_that_was_replaced_may_go() -> None:
    """The group goes on; so it does when the next one fails."""
    heard = Heard()
    bundles = Bundles(heard, held=True)
    bundles.on_list([dated("b", 1, phase="Running"), dated("c", 2, phase="Running")], "5")
    bundles.on_event("MODIFIED", dated("c", 2, phase="Failed", version=6))
    bundles.on_event("ADDED", dated("d", 3, version=7))
    assert heard.told[-1] == ("MODIFIED", ["b", "d"])
    bundles.on_event("DELETED", dated("c", 2, phase="Failed", version=8))
    bundles.on_event("ADDED", dated("e", 4, version=9))
    assert heard.told[-1] == ("MODIFIED", ["b", "d"])
    bundles.on_event("MODIFIED", dated("d", 3, phase="Failed", version=10))
    assert heard.told[-1] == ("MODIFIED", ["b", "e"])
    bundles.on_event("DELETED", dated("e", 4, version=11))
    assert heard.told[-1] == ("DELETED", [])


def test_a_head_that_was_replaced_runs_again_with_the_group() -> None:
    """When that has left its cluster, it is made of those that it began with."""
    heard = Heard()
    bundles = Bundles(heard, held=True)
    failed = dated("b", 1, phase="Failed", version=3, **RUNS)
    bundles.on_list([failed, dated("c", 2, phase="Running"), dated("d", 3, phase="Running")], "5")
    assert heard.told[-1] == ("LISTED", ["b", "c", "d"])
    bundles.on_event("MODIFIED", dated("b", 1, phase="Failed", version=6))
    assert heard.told[-1] == ("MODIFIED", ["b", "c", "d"])
    bundles.on_event("MODIFIED", dated("b", 1, phase="Pending", version=7))
    assert heard.told[-1][1] == ["b", "c"]


@pytest.mark.parametrize("listed", [False, True])
def test_where_pods_are_held_a_group_that_loses_one_is_gone(listed: bool) -> None:
    """It begins anew with the next pod that is made, under another head if that was lost."""
    heard = Heard()
    bundles = Bundles(heard, held=True)
    one, two = dated("a", 1, version=3), dated("b", 1, version=4)
    bundles.on_list([one, two], "5")
    if listed:
        heard.told.clear()
        bundles.on_list([two], "7")
        assert heard.told == []
    else:
        bundles.on_event("DELETED", dated("a", 1, version=7))
        assert heard.told[-1] == ("DELETED", [])
        assert heard.last["metadata"]["uid"] == "u-a"
        assert heard.last["metadata"]["resourceVersion"] == "7"
    bundles.on_event("MODIFIED", dated("b", 1, version=8))
    bundles.on_event("ADDED", dated("c", 9, version=9))
    assert heard.told[-1] == ("MODIFIED", ["b", "c"])
    assert heard.last["metadata"]["uid"] == "u-b"


def moved(pod_: Json, version: int, **meta: Any) -> Json:
    return {**pod_, "metadata": {**pod_["metadata"], "resourceVersion": str(version), **meta}}


@pytest.mark.parametrize("held", [False, True])
def test_a_pod_that_somebody_puts_into_another_group_leaves_its_own(held: bool) -> None:
    """Labels of pods can be changed. Its group is gone before the pod is told of as it is now."""
    heard = Heard()
    bundles = Bundles(heard, held=held)
    one = pod("a", total=1, version=3)
    bundles.on_list([one], "5")
    bundles.on_event("MODIFIED", moved(one, 7, labels={"kueue.x-k8s.io/queue-name": "lq"}))
    assert heard.told[-2:] == [("DELETED", []), ("MODIFIED", ["a"])]
    assert heard.versions[-2:] == ["6", "7"]


def test_a_pod_that_gets_an_owner_leaves_its_group() -> None:
    """It is queued with that, and its end does not go unseen."""
    heard = Heard()
    bundles = Bundles(heard)
    one = pod("a", version=3)
    bundles.on_list([one], "5")
    owner = {"kind": "Job", "name": "j", "controller": True}
    bundles.on_event("MODIFIED", moved(one, 7, ownerReferences=[owner]))
    assert heard.told[-1] == ("DELETED", [])
    bundles.on_event("DELETED", moved(one, 8, ownerReferences=[owner]))
    assert len(heard.told) == 2


def test_nothing_is_kept_of_groups_that_are_gone() -> None:
    bundles = Bundles(Heard(), held=True)
    bundles.on_list([], "1")
    for name in ("a", "b"):
        bundles.on_event("ADDED", dated(name, 1, version=3))
    for name in ("a", "b"):
        bundles.on_event("DELETED", dated(name, 1, version=4))
    for kept in (bundles._pods, bundles._heads, bundles._members, bundles._seen, bundles._where):
        assert kept == {}


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


async def test_a_group_is_read_and_removed_with_those_in_excess(groups: Any) -> None:
    """They are not in it, and none of the statuses is theirs; they go with it."""
    stored, fake = groups
    made = await stored.create(body("a", "c"), "team")
    fake.create(PODS, {**body("b", "z")["spec"]["pods"][0]})
    found = await stored.get("a", "team")
    assert _names(found) == ["a", "b"]  # made in the same second as the others
    fake.merge(PODS, "c", {"status": {"phase": "Running"}}, "team", status=True)
    assert _names(await stored.get("a", "team")) == ["a", "c"]
    with pytest.raises(NotFound):
        await stored.delete("a", "team", uid=made["metadata"]["uid"])
    assert not fake.items(PODS)


async def test_what_was_seen_counts_deletions(groups: Any) -> None:
    """No pod that is left has so late a version; a later one is a conflict all the same."""
    stored, fake = groups
    made = await stored.create(body("a", "b"), "team")
    seen = {**{key: made["metadata"][key] for key in ("uid",)}, "resourceVersion": "999"}
    await stored.patch("a", {"metadata": {**seen, "annotations": {"n": "1"}}}, "team")
    assert fake.get(PODS, "a", "team")["metadata"]["annotations"]["n"] == "1"


async def test_a_group_is_written_as_it_was_seen(groups: Any) -> None:
    """A pod too many that was made in the same second is no conflict, whatever its name: who has
    seen the group names its pods, or what is written does, or they are older.
    """
    stored, fake = groups
    made = await stored.create(body("b", "c"), "team")
    fake.create(PODS, {**body("a", "z")["spec"]["pods"][0]})
    seen = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    note = {"metadata": {**seen, "annotations": {"n": "1"}}}
    after = await stored.patch("b", note, "team")
    assert _names(after) == ["b", "c"]
    seen["resourceVersion"] = after["metadata"]["resourceVersion"]  # later than the other pod
    running = {"pods": {name: {"phase": "Running"} for name in ("b", "c")}}
    after = await stored.put_status("b", seen, running, "team")
    assert _names(after) == ["b", "c"]
    fake.merge(PODS, "c", {"status": {"phase": "Pending"}}, "team", status=True)
    known = Groups(stored._client, KINDS["Pod.v1"], {"b", "c"})
    assert _names(await known.get("b", "team")) == ["b", "c"]


@pytest.mark.parametrize("status", [False, True], ids=["patch", "status"])
async def test_what_a_write_answers_is_as_of_one_moment(groups: Any, status: bool) -> None:
    """While one pod is written another one is changed, and a third is deleted: the answer is newer
    than the news of both, so it has to say the same.
    """
    stored, fake = groups
    made = await stored.create(body("a", "b", "c"), "team")
    seen = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    send = stored._client.patch

    async def meanwhile(*args: Any, **options: Any) -> Json:
        stored._client.patch = send
        fake.delete(PODS, "c", "team")
        fake.merge(PODS, "b", {"metadata": {"labels": {"n": "1"}}}, "team")
        return dict(await send(*args, **options))

    stored._client.patch = meanwhile
    if status:
        told = {"pods": {"a": {"phase": "Running"}}}
        after = await stored.put_status("a", seen, told, "team")
    else:
        after = await stored.patch("a", {"metadata": {**seen, "labels": {"m": "1"}}}, "team")
    assert _names(after) == ["a", "b"]
    assert after["spec"]["pods"] == [fake.get(PODS, name, "team") for name in ("a", "b")]
    assert after["metadata"]["uid"] == made["metadata"]["uid"]


def copies(*names: str, of: str = "u") -> list[Json]:
    made = body(*names)["spec"]["pods"]
    for pod_ in made:
        pod_["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "o"
        pod_["metadata"]["annotations"]["fedq.io/local-uid"] = of
    return list(made)


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_copy_whose_head_is_gone_is_removed(groups: Any, at_once: bool) -> None:
    """Somebody has deleted that: the others are not gone for it, and others' pods stay."""
    found, fake = groups
    for made in (*copies("a", "b"), *copies("c", of="v")):
        fake.create(PODS, made)
    fake.delete(PODS, "a", "team")
    with pytest.raises(NotFound):
        await found.delete("a", "team", uid="x", at_once=at_once)
    whose = Groups(found._client, KINDS["Pod.v1"], whose=Whose("u", "x"))
    left = await whose.get("a", "team")
    assert (left["metadata"]["name"], left["metadata"]["uid"], _names(left)) == ("a", "x", ["b"])
    seen = int(left["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await whose.delete("a", "team", uid="x", resource_version=str(seen - 1))
    with pytest.raises(NotFound):
        await whose.patch("a", {"metadata": {"uid": "x"}}, "team")
    with pytest.raises(NotFound):
        await whose.delete("a", "team", uid="x", at_once=at_once)
    assert [pod_["metadata"]["name"] for pod_ in fake.items(PODS)] == ["c"]


async def test_an_agent_stops_what_is_left_of_a_copy(groups: Any) -> None:
    """Its lease ends, and somebody has deleted the head: nothing runs on."""
    found, fake = groups
    whole = [fake.create(PODS, made) for made in copies("a", "b")]
    job = worker_job(bundle(whole))
    assert job is not None
    fake.delete(PODS, "a", "team")
    await Jobs(found._client, lambda seen: None, lambda: 0).hold(job, "it ended", 0.0)
    assert fake.items(PODS) == []
