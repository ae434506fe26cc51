"""What Fedq relies on in an API server, proved on the fake and on a real one alike."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from federation.edge.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
)
from federation.edge.informer import Informer, Select, Store
from federation.edge.kube import KubeClient, WatchEvent
from federation.edge.resources import CONFIGMAPS, CRDS, JOBS, LEASES, NAMESPACES, Json, Resource

UNKNOWN = Resource("nothing.fedq.io", "v1", "nothings")


def config(name: str, ns: str, **meta: object) -> Json:
    return {"metadata": {"name": name, "namespace": ns, **meta}, "data": {"a": "1"}}


async def test_create_fills_in_the_metadata(kube: KubeClient, ns: str) -> None:
    """uid, resourceVersion, creationTimestamp come from the server; generateName is completed."""
    made = await kube.create(CONFIGMAPS, {"metadata": {"generateName": "x-"}, "data": {}}, ns)

    meta = made["metadata"]
    assert meta["name"].startswith("x-")
    assert len(meta["name"]) > 2
    assert meta["namespace"] == ns
    assert meta["uid"]
    assert meta["resourceVersion"].isdigit()
    assert meta["creationTimestamp"].endswith("Z")
    assert await kube.get(CONFIGMAPS, meta["name"], ns) == made


async def test_names_are_taken_once(kube: KubeClient, ns: str) -> None:
    """The second create of a name says AlreadyExists, and what it was about."""
    await kube.create(CONFIGMAPS, config("a", ns))

    with pytest.raises(AlreadyExists, match=f"create configmaps {ns}/a on cluster contract"):
        await kube.create(CONFIGMAPS, config("a", ns))


async def test_what_is_missing_is_not_found(kube: KubeClient, ns: str) -> None:
    """Objects, namespaces of creates and resource types that are not there say NotFound."""
    with pytest.raises(NotFound, match='"nix" not found'):
        await kube.get(JOBS, "nix", ns)
    with pytest.raises(NotFound, match='namespaces "no-such" not found'):
        await kube.create(CONFIGMAPS, config("a", "no-such"))
    with pytest.raises(NotFound):
        await kube.list(UNKNOWN)
    with pytest.raises(NotFound):
        await kube.delete(CONFIGMAPS, "nix", ns)
    with pytest.raises(NotFound):
        await kube.patch(CONFIGMAPS, "nix", {"data": {}}, ns)


async def test_listing_a_missing_namespace_is_empty(kube: KubeClient) -> None:
    """Lists do not check the namespace."""
    page = await kube.list(CONFIGMAPS, "no-such")

    assert page.items == []


async def test_stale_writes_conflict(kube: KubeClient, ns: str) -> None:
    """An update or merge patch with an old resourceVersion changes nothing."""
    old = await kube.create(CONFIGMAPS, config("a", ns))
    await kube.patch(CONFIGMAPS, "a", {"data": {"a": "2"}}, ns)

    with pytest.raises(Conflict, match="has been modified"):
        await kube.update(CONFIGMAPS, old)
    version = {"resourceVersion": old["metadata"]["resourceVersion"]}
    with pytest.raises(Conflict):
        await kube.patch(CONFIGMAPS, "a", {"metadata": version, "data": {"a": "3"}}, ns)
    assert (await kube.get(CONFIGMAPS, "a", ns))["data"] == {"a": "2"}


async def test_a_write_without_change_makes_no_version(kube: KubeClient, ns: str) -> None:
    """Writing what is there already costs no event."""
    made = await kube.create(CONFIGMAPS, config("a", ns))

    same = await kube.patch(CONFIGMAPS, "a", {"data": {"a": "1"}}, ns)

    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_merge_patch_removes_with_null(kube: KubeClient, ns: str) -> None:
    """Null removes a key, others stay."""
    await kube.create(CONFIGMAPS, config("a", ns))

    done = await kube.patch(CONFIGMAPS, "a", {"data": {"a": None, "b": "2"}}, ns)

    assert done["data"] == {"b": "2"}


async def test_json_patch_tests_before_it_writes(kube: KubeClient, ns: str) -> None:
    """A failed test operation refuses the whole patch."""
    await kube.create(CONFIGMAPS, config("a", ns))
    replace: Json = {"op": "replace", "path": "/data/a", "value": "2"}

    with pytest.raises(Invalid):
        await kube.patch(
            CONFIGMAPS,
            "a",
            [{"op": "test", "path": "/data/a", "value": "9"}, replace],
            ns,
            kind="json",
        )
    remove: Json = {"op": "remove", "path": "/metadata/annotations"}
    with pytest.raises(Invalid):
        await kube.patch(CONFIGMAPS, "a", [remove], ns, kind="json")
    done = await kube.patch(
        CONFIGMAPS, "a", [{"op": "test", "path": "/data/a", "value": "1"}, replace], ns, kind="json"
    )
    assert done["data"] == {"a": "2"}


async def test_the_uid_cannot_be_patched(kube: KubeClient, ns: str) -> None:
    """A merge patch with a foreign uid is refused: a cheap guard against a namesake."""
    await kube.create(JOBS, job("a", ns))

    with pytest.raises((Invalid, Conflict)):
        await kube.patch(JOBS, "a", {"metadata": {"uid": "other"}, "spec": {"suspend": False}}, ns)


@pytest.mark.parametrize("field", ["uid", "resource_version"])
async def test_delete_preconditions(kube: KubeClient, ns: str, field: str) -> None:
    """A delete meant for another object or version changes nothing."""
    made = await kube.create(CONFIGMAPS, config("a", ns))

    wrong = {"uid": "other", "resource_version": "1"}[field]
    with pytest.raises(Conflict, match="precondition"):
        await kube.delete(CONFIGMAPS, "a", ns, **{field: wrong})  # type: ignore[arg-type]
    meta = made["metadata"]
    await kube.delete(
        CONFIGMAPS, "a", ns, uid=meta["uid"], resource_version=meta["resourceVersion"]
    )
    with pytest.raises(NotFound):
        await kube.get(CONFIGMAPS, "a", ns)


async def test_finalizers_hold_a_deleted_object(kube: KubeClient, ns: str) -> None:
    """It stays, marked, until the last finalizer is removed."""
    await kube.create(CONFIGMAPS, config("a", ns, finalizers=["fedq.io/hold"]))

    await kube.delete(CONFIGMAPS, "a", ns)

    held = await kube.get(CONFIGMAPS, "a", ns)
    assert held["metadata"]["deletionTimestamp"]
    await kube.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, ns)
    with pytest.raises(NotFound):
        await kube.get(CONFIGMAPS, "a", ns)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a controller of the real cluster."""
    async with asyncio.timeout(15):
        # The change is made by another process, there is no event to wait for.
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _owned(kube: KubeClient, ns: str) -> Json:
    owner = await kube.create(CONFIGMAPS, config("owner", ns))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    return await kube.create(CONFIGMAPS, config("owned", ns, ownerReferences=[reference]))


async def test_background_deletes_dependents(kube: KubeClient, ns: str) -> None:
    """The garbage collector takes what the deleted object owned (at once in the fake)."""
    await _owned(kube, ns)

    await kube.delete(CONFIGMAPS, "owner", ns)

    async def owned_is_gone() -> bool:
        return "owned" not in [_name(o) for o in (await kube.list(CONFIGMAPS, ns)).items]

    await eventually(owned_is_gone)


async def test_orphan_strips_the_reference(kube: KubeClient, ns: str) -> None:
    """Dependents stay, without their owner."""
    await _owned(kube, ns)

    await kube.delete(CONFIGMAPS, "owner", ns, propagation="Orphan")

    async def stands_alone() -> bool:
        return "ownerReferences" not in (await kube.get(CONFIGMAPS, "owned", ns))["metadata"]

    await eventually(stands_alone)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=x", "ab"),
        ("app==x,tier!=1", "b"),
        ("tier", "a"),
        ("!tier", "bc"),
        ("app in (y, z)", "c"),
        ("app notin (x),app", "c"),
    ],
)
async def test_label_selectors(kube: KubeClient, ns: str, selector: str, names: str) -> None:
    """Equality, existence and sets."""
    for name, labels in {
        "a": {"app": "x", "tier": "1"},
        "b": {"app": "x"},
        "c": {"app": "y"},
    }.items():
        await kube.create(CONFIGMAPS, config(name, ns, labels=labels))

    page = await kube.list(CONFIGMAPS, ns, label_selector=selector)

    # The real server puts kube-root-ca.crt into each namespace.
    assert "".join(_name(o) for o in page.items if len(_name(o)) == 1) == names


async def test_field_selectors(kube: KubeClient, ns: str) -> None:
    """By name and by namespace; an unknown field is refused."""
    for name in "ab":
        await kube.create(CONFIGMAPS, config(name, ns))

    both = f"metadata.name=b,metadata.namespace={ns}"
    assert [_name(o) for o in (await kube.list(CONFIGMAPS, field_selector=both)).items] == ["b"]
    with pytest.raises(Invalid):
        await kube.list(CONFIGMAPS, field_selector="spec.nonsense=1")
    with pytest.raises(Invalid):
        await kube.list(CONFIGMAPS, label_selector="a in")


async def test_lists_are_read_page_by_page(kube: KubeClient, ns: str) -> None:
    """All objects come, whatever the page size."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    for n in range(5):
        await kube.create(LEASES, {**lease, "metadata": {"name": f"l{n}"}}, ns)

    page = await kube.list(LEASES, ns, limit=2)

    assert [_name(o) for o in page.items] == [f"l{n}" for n in range(5)]
    assert {(o["apiVersion"], o["kind"]) for o in page.items} == {
        ("coordination.k8s.io/v1", "Lease")
    }
    assert kube.requests["list", "leases", ""] == 3


async def _collect(
    kube: KubeClient, ns: str, since: str, n: int, *, res: Resource = LEASES, labels: str = ""
) -> list[tuple[str, str]]:
    """The first `n` events, bookmarks left out."""
    got: list[WatchEvent] = []
    stream = kube.watch(res, ns, label_selector=labels, resource_version=since, timeout_seconds=10)
    async with asyncio.timeout(10), aclosing(stream) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                got.append(event)
            if len(got) == n:
                break
    return [(event.type, _name(event.object)) for event in got]


async def test_watch_tells_all_that_happened_since(kube: KubeClient, ns: str) -> None:
    """From the version of a list on, nothing is missed and nothing comes twice."""
    await kube.create(LEASES, {"metadata": {"name": "before"}, "spec": {}}, ns)
    since = (await kube.list(LEASES, ns)).resource_version
    await kube.create(LEASES, {"metadata": {"name": "a"}, "spec": {}}, ns)
    await kube.patch(LEASES, "a", {"spec": {"holderIdentity": "x"}}, ns)
    await kube.delete(LEASES, "a", ns)

    assert await _collect(kube, ns, since, 3) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


async def test_watch_with_a_selector_sees_entering_and_leaving(kube: KubeClient, ns: str) -> None:
    """An object that starts or stops matching looks created or deleted."""
    since = (await kube.list(LEASES, ns)).resource_version
    await kube.create(LEASES, {"metadata": {"name": "a"}, "spec": {}}, ns)
    await kube.patch(LEASES, "a", {"metadata": {"labels": {"app": "x"}}}, ns)
    await kube.patch(LEASES, "a", {"metadata": {"labels": {"app": None}}}, ns)

    got = await _collect(kube, ns, since, 2, labels="app=x")

    assert got == [("ADDED", "a"), ("DELETED", "a")]


async def test_watch_without_a_version_starts_with_what_is_there(kube: KubeClient, ns: str) -> None:
    """The present objects come as ADDED."""
    await kube.create(LEASES, {"metadata": {"name": "a"}, "spec": {}}, ns)

    assert await _collect(kube, ns, "", 1) == [("ADDED", "a")]


async def test_watch_ends_when_its_time_is_up(kube: KubeClient, ns: str) -> None:
    """The server ends the stream, with a bookmark last; that is no error."""
    since = (await kube.list(LEASES, ns)).resource_version

    events = [e async for e in kube.watch(LEASES, ns, resource_version=since, timeout_seconds=1)]

    assert [e.type for e in events] in ([], ["BOOKMARK"])


async def test_a_version_that_is_too_old_is_gone(
    kube: KubeClient, ns: str, things: Resource
) -> None:
    """A version from before the type existed is forgotten: list again."""
    with pytest.raises(Gone, match="too old resource version"):
        await _collect(kube, ns, "1", 1, res=things)


# Custom resources

THINGS = Resource("contract.fedq.io", "v1", "things")
SCHEMA: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
async def things(kube: KubeClient) -> Resource:
    """A custom type with a status. It stays installed: a real server needs a second to serve it."""
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    spec = {
        "group": THINGS.group,
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
        },
        "versions": [{**version, "schema": {"openAPIV3Schema": SCHEMA}}],
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{THINGS.group}"},
        "spec": spec,
    }
    with contextlib.suppress(AlreadyExists):
        await kube.create(CRDS, crd)

    async def served() -> bool:
        with contextlib.suppress(NotFound, TooManyRequests):
            await kube.list(THINGS)
            return True
        return False

    await eventually(served)
    return THINGS


def thing(ns: str) -> Json:
    meta = {"name": "a", "namespace": ns}
    api = {"apiVersion": "contract.fedq.io/v1", "kind": "Thing"}
    return {**api, "metadata": meta, "spec": {"x": 1}, "status": {"y": 1}}


async def test_custom_spec_and_status_are_apart(
    kube: KubeClient, ns: str, things: Resource
) -> None:
    """Creates drop the status; status writes take neither spec nor metadata along."""
    made = await kube.create(things, thing(ns))
    assert "status" not in made
    assert made["metadata"]["generation"] == 1

    patch = {"metadata": {"annotations": {"a": "b"}}, "spec": {"x": 2}, "status": {"y": 2}}
    written = await kube.patch(things, "a", patch, ns, subresource="status")
    assert (written["spec"], written["status"]) == ({"x": 1}, {"y": 2})
    assert "annotations" not in written["metadata"]
    assert written["metadata"]["generation"] == 1

    written = await kube.patch(things, "a", {"spec": {"x": 3}, "status": {"y": 3}}, ns)
    assert (written["spec"], written["status"]) == ({"x": 3}, {"y": 2})
    assert written["metadata"]["generation"] == 2


async def test_custom_updates_need_a_version(kube: KubeClient, ns: str, things: Resource) -> None:
    """A PUT must say what it replaces."""
    made = await kube.create(things, thing(ns))
    del made["metadata"]["resourceVersion"]

    with pytest.raises(Invalid, match="must be specified"):
        await kube.update(things, made)


# Jobs


def job(name: str, ns: str, **spec: object) -> Json:
    """A Job that no controller of the cluster touches."""
    template: Json = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"managedBy": "fedq.io/test", "suspend": True, "template": template, **spec},
    }


T1, T2, T3 = (f"2026-11-29T1{hour}:00:00Z" for hour in range(3))
T0 = "2026-11-29T09:00:00Z"


def condition(type_: str, status: str = "True") -> Json:
    return {"type": type_, "status": status, "lastTransitionTime": T1, "lastProbeTime": None}


class JobAt:
    """One Job and the two kinds of write to it."""

    def __init__(self, kube: KubeClient, ns: str) -> None:
        self._kube, self._ns = kube, ns

    async def spec(self, **changes: object) -> Json:
        return await self._kube.patch(JOBS, "a", {"spec": changes}, self._ns)

    async def status(self, **changes: object) -> Json:
        body = {"status": changes}
        return await self._kube.patch(JOBS, "a", body, self._ns, subresource="status")


@pytest.fixture
async def suspended(kube: KubeClient, ns: str) -> JobAt:
    await kube.create(JOBS, job("a", ns))
    return JobAt(kube, ns)


@pytest.fixture
async def running(suspended: JobAt) -> JobAt:
    """Two pods succeeded, one failed, one runs."""
    await suspended.spec(suspend=False)
    await suspended.status(startTime=T1, active=1, ready=1, succeeded=2, failed=1)
    return suspended


async def test_job_defaults(kube: KubeClient, ns: str) -> None:
    """Counts, selector and labels are filled in, a status in the body is dropped."""
    made = await kube.create(JOBS, {**job("a", ns), "status": {"active": 7}})

    spec, uid = made["spec"], made["metadata"]["uid"]
    assert made["status"] == {}
    assert made["metadata"]["generation"] == 1
    wanted = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": True}
    assert {key: spec[key] for key in wanted} == wanted
    assert spec["completionMode"] == "NonIndexed"
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = {
        "app": "x",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    assert spec["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels


async def test_own_labels_stay_alone(kube: KubeClient, ns: str) -> None:
    """A Job with labels gets none added."""
    body = job("a", ns)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}

    made = await kube.create(JOBS, body)

    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q"}


async def test_a_job_needs_a_restart_policy(kube: KubeClient, ns: str) -> None:
    """Never or OnFailure."""
    body = job("a", ns)
    del body["spec"]["template"]["spec"]["restartPolicy"]

    with pytest.raises(Invalid, match="restartPolicy"):
        await kube.create(JOBS, body)


async def test_spec_and_status_are_apart(kube: KubeClient, ns: str, running: JobAt) -> None:
    """A spec write does not touch the status, and the reverse; only the spec has generations."""
    made = await kube.get(JOBS, "a", ns)
    made["spec"]["parallelism"], made["status"] = 3, {"active": 9}
    written = await kube.update(JOBS, made)
    assert (written["spec"]["parallelism"], written["status"]["active"]) == (3, 1)
    assert written["metadata"]["generation"] == made["metadata"]["generation"] + 1

    made = written
    made["spec"]["parallelism"], made["status"]["active"] = 5, 2
    written = await kube.update(JOBS, made, subresource="status")
    assert (written["spec"]["parallelism"], written["status"]["active"]) == (3, 2)
    assert written["metadata"]["generation"] == made["metadata"]["generation"]


async def test_a_status_write_takes_annotations_along(kube: KubeClient, ns: str) -> None:
    """On a Job, one write can change the status and say why."""
    await kube.create(JOBS, job("a", ns))

    body = {"metadata": {"annotations": {"fedq.io/x": "y"}}, "status": {"startTime": T1}}
    done = await kube.patch(JOBS, "a", body, ns, subresource="status")

    assert done["metadata"]["annotations"] == {"fedq.io/x": "y"}


OPEN = {
    "nodeSelector": {"spec": {"nodeSelector": {"a": "b"}}},
    "tolerations": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
    "schedulingGates": {"spec": {"schedulingGates": [{"name": "fedq.io/devices"}]}},
    "labels": {"metadata": {"labels": {"q": "z"}}},
    "annotations": {"metadata": {"annotations": {"q": "z"}}},
}


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN)
async def test_the_template_opens_while_suspended(suspended: JobAt, change: Json) -> None:
    """Scheduling directives can be set together with the unsuspension, and not afterwards."""
    await suspended.spec(suspend=False, template=change)

    await suspended.status(startTime=T1, active=1)
    back = {"metadata": {"labels": {"q": "other"}}, "spec": {"nodeSelector": {"z": "z"}}}
    with pytest.raises(Invalid, match="immutable"):
        await suspended.spec(template=back)


@pytest.mark.parametrize(
    "change",
    [
        {"managedBy": "fedq.io/other"},
        {"completions": 5},
        {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}},
        {"template": {"spec": {"priorityClassName": "system-node-critical"}}},
    ],
    ids=["managedBy", "completions", "image", "priorityClassName"],
)
async def test_the_rest_of_a_job_is_fixed(suspended: JobAt, change: Json) -> None:
    """Even while it is suspended."""
    with pytest.raises(Invalid, match="immutable"):
        await suspended.spec(**change)


async def test_parallelism_stays_open(running: JobAt) -> None:
    """Partial admission lowers it."""
    done = await running.spec(parallelism=2)

    assert done["spec"]["parallelism"] == 2


async def test_completions_of_an_indexed_job_follow_its_parallelism(
    kube: KubeClient, ns: str
) -> None:
    """Partial admission lowers both, a stop puts both back, and one alone stays."""
    spec = {"completionMode": "Indexed", "parallelism": 5, "completions": 5}
    await kube.create(JOBS, job("a", ns, **spec))
    made = JobAt(kube, ns)
    with pytest.raises(Invalid, match="in tandem"):
        await made.spec(completions=3)
    done = await made.spec(parallelism=3, completions=3, suspend=False)
    assert (done["spec"]["parallelism"], done["spec"]["completions"]) == (3, 3)
    await made.spec(suspend=True)
    done = await made.spec(parallelism=5, completions=5)
    assert (done["spec"]["parallelism"], done["spec"]["completions"]) == (5, 5)


async def test_the_template_opens_again_without_a_start_time(running: JobAt) -> None:
    """A stop takes the start time away and then what the start had added to the template."""
    await running.spec(suspend=True)
    back = {"spec": {"nodeSelector": {"a": None, "c": "d"}, "tolerations": None}}
    await running.status(startTime=None, active=0, ready=0, conditions=[condition("Suspended")])
    done = await running.spec(template=OPEN["nodeSelector"])
    assert done["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    done = await running.spec(template=back)
    assert done["spec"]["template"]["spec"]["nodeSelector"] == {"c": "d"}


async def test_start_time_of_a_running_job_is_fixed(running: JobAt) -> None:
    """It can be neither changed nor removed."""
    for value in (T2, None):
        with pytest.raises(Invalid, match="startTime"):
            await running.status(startTime=value)


@pytest.mark.parametrize("counter", ["succeeded", "failed"])
async def test_counters_never_decrease(running: JobAt, counter: str) -> None:
    """Neither running nor suspended."""
    with pytest.raises(Invalid, match="cannot decrease"):
        await running.status(**{counter: 0})
    await running.spec(suspend=True)
    with pytest.raises(Invalid, match="cannot decrease"):
        await running.status(**{counter: 0})


async def test_a_job_moves_to_another_cluster(running: JobAt) -> None:
    """Leaving: suspend, then one status write. Arriving: a new start time, counters kept."""
    await running.spec(suspend=True)
    left = await running.status(
        startTime=None, active=0, ready=0, conditions=[condition("Suspended")]
    )
    assert "startTime" not in left["status"]
    assert "active" not in left["status"]
    assert (left["status"]["succeeded"], left["status"]["failed"]) == (2, 1)

    await running.spec(suspend=False, template=OPEN["nodeSelector"])
    arrived = await running.status(
        startTime=T2, active=1, ready=1, conditions=[condition("Suspended", "False")]
    )
    assert arrived["status"]["startTime"] == T2
    for counter, value in (("succeeded", 1), ("failed", 0)):
        with pytest.raises(Invalid, match="cannot decrease"):
            await running.status(**{counter: value})
    done = await running.status(
        active=0,
        ready=0,
        succeeded=3,
        completionTime=T3,
        conditions=[condition("SuccessCriteriaMet"), condition("Complete")],
    )
    assert done["status"]["completionTime"] == T3


async def test_a_job_whose_pods_stand_still(running: JobAt) -> None:
    """Shown without suspending it: nothing is active, and why; later it goes on and ends."""
    held = await running.status(active=0, ready=0, conditions=[condition("Suspended")])
    assert held["status"]["startTime"] == T1
    assert held["status"]["conditions"][0]["status"] == "True"
    await running.status(active=1, ready=1, conditions=[condition("Suspended", "False")])
    ends = [condition("SuccessCriteriaMet"), condition("Complete")]
    done = await running.status(active=0, ready=0, succeeded=3, completionTime=T3, conditions=ends)
    assert done["status"]["completionTime"] == T3


async def test_a_result_of_an_earlier_run(running: JobAt) -> None:
    """A Job that is shown as started later ends no sooner than that; equal times are fine."""
    ends = [condition("SuccessCriteriaMet"), condition("Complete")]
    with pytest.raises(Invalid, match="completionTime"):
        await running.status(active=0, ready=0, completionTime=T0, conditions=ends)

    done = await running.status(active=0, ready=0, completionTime=T1, conditions=ends)
    assert done["status"]["completionTime"] == T1


async def test_a_suspended_job_may_end(suspended: JobAt) -> None:
    """The result may come while it waits to run again; it need not be unsuspended for that."""
    ends = [condition("SuccessCriteriaMet"), condition("Complete")]
    done = await suspended.status(
        startTime=T1, succeeded=1, ready=0, completionTime=T2, conditions=ends
    )
    assert done["status"]["completionTime"] == T2


async def test_a_started_job_keeps_its_template_until_the_start_time_is_gone(
    running: JobAt,
) -> None:
    """Suspending alone does not open it."""
    await running.spec(suspend=True)
    with pytest.raises(Invalid, match="immutable"):
        await running.spec(template=OPEN["nodeSelector"])
    await running.status(startTime=None, active=0, ready=0, conditions=[condition("Suspended")])

    await running.spec(template=OPEN["nodeSelector"])


BAD_ENDS: dict[str, Json] = {
    "no criteria": {"completionTime": T3, "conditions": [condition("Complete")]},
    "no target": {"conditions": [condition("Failed")]},
    "no completion time": {"conditions": [condition("SuccessCriteriaMet"), condition("Complete")]},
    "completion time only": {"completionTime": T3},
    "ends before it starts": {
        "completionTime": "2026-11-28T00:00:00Z",
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    },
    "still active": {
        "active": 1,
        "completionTime": T3,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    },
    "both": {
        "completionTime": T3,
        "conditions": [condition(t) for t in ("SuccessCriteriaMet", "Complete", "FailureTarget")],
    },
    "more ready than active": {"active": 1, "ready": 2},
    "negative": {"active": -1},
}


@pytest.mark.parametrize("end", BAD_ENDS.values(), ids=BAD_ENDS)
async def test_statuses_that_make_no_sense_are_refused(running: JobAt, end: Json) -> None:
    """The whole write is refused."""
    with pytest.raises(Invalid):
        await running.status(**{"active": 0, "ready": 0, **end})


async def test_failed_needs_a_start_time(suspended: JobAt) -> None:
    """Also a Job that never ran must have started before it can have failed."""
    failed = [condition("FailureTarget"), condition("Failed")]
    with pytest.raises(Invalid, match="startTime"):
        await suspended.status(conditions=failed)

    done = await suspended.status(startTime=T1, conditions=failed)

    assert done["status"]["conditions"][1]["type"] == "Failed"


async def test_the_end_is_final(running: JobAt) -> None:
    """Complete cannot be taken back; suspending afterwards is allowed and means nothing."""
    met = [condition("SuccessCriteriaMet"), condition("Complete")]
    await running.status(active=0, ready=0, completionTime=T3, conditions=met)

    with pytest.raises(Invalid):
        await running.status(completionTime=None, conditions=[])
    await running.spec(suspend=True)


async def test_status_of_a_type_without_one(kube: KubeClient, ns: str) -> None:
    """No status subresource, no status write."""
    await kube.create(CONFIGMAPS, config("a", ns))

    with pytest.raises(NotFound):
        await kube.patch(CONFIGMAPS, "a", {"status": {}}, ns, subresource="status")


async def test_readiness_and_version(kube: KubeClient) -> None:
    """Paths that are no resources."""
    assert await kube.raw("GET", "/readyz") == b"ok"
    assert b'"major"' in await kube.raw("GET", "/version")
    assert (await kube.get(NAMESPACES, "default"))["metadata"]["name"] == "default"


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


async def test_an_informer_keeps_up(kube: KubeClient, ns: str) -> None:
    """Present objects, then changes, by one list and one watch."""
    seen: list[tuple[str, bool]] = []
    store: Store[str] = Store(
        lambda obj: str(obj["metadata"]["uid"]),
        lambda key, old, new: seen.append((key[1], bool(new))),
    )
    await kube.create(LEASES, {"metadata": {"name": "a"}, "spec": {}}, ns)
    informer = Informer(kube, LEASES, store, select=Select(ns))
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await kube.create(LEASES, {"metadata": {"name": "b"}, "spec": {}}, ns)
    await kube.delete(LEASES, "a", ns)

    async def told() -> bool:
        return seen == [("a", True), ("b", True), ("a", False)]

    await eventually(told)
    task.cancel()
    await asyncio.wait([task])
    assert set(store.items) == {(ns, "b")}
    assert kube.requests["list", "leases", ""] == kube.requests["watch", "leases", ""] == 1
