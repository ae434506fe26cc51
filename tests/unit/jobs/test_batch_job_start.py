"""batch/v1 Job: how many pods, started with fewer, and made as it was again."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.limit_range import summarize
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import (
    Admission,
    PodSetAssignment,
    ResourceFlavor,
    Toleration,
    TopologyAssignment,
)
from federation.edge.resources import JOBS
from federation.jobs import batch_job
from federation.jobs.containers import PodDefaults, limit_items
from federation.jobs.mirror import Identity
from federation.jobs.template import merge_patch
from tests.fakes.kube_api import FakeKube
from tests.fakes.patches import merge
from tests.unit.core.build import FEW

Json = dict[str, Any]
MIN, EQUAL = (
    "kueue.x-k8s.io/job-min-parallelism",
    "kueue.x-k8s.io/job-completions-equal-parallelism",
)
TIME = "kueue.x-k8s.io/max-exec-time-seconds"
IDENTITY = Identity("origin", "u", 1, 1, "2026-01-01T00:00:00Z", 0)


def job(annotations: Json | None = None, succeeded: int = 0, **spec: Any) -> Json:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    return {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": dict(annotations or {}),
        },
        "spec": {"suspend": True, "template": template, **spec},
        "status": {"succeeded": succeeded} if succeeded else {},
    }


def elastic(count: int = 10, least: int = 2, succeeded: int = 0) -> Json:
    """An Indexed Job whose completions follow its parallelism."""
    notes = {MIN: str(least), EQUAL: "true"}
    spec = {"completionMode": "Indexed", "parallelism": count, "completions": count}
    return job(notes, succeeded, **spec)


def admission(
    count: int, flavor: str = "f", topology: TopologyAssignment | None = None
) -> Admission:
    pods = PodSetAssignment("main", count, {"cpu": flavor}, {"cpu": 1000 * count}, topology)
    return Admission("q", (pods,))


def start(body: Json, count: int, *flavors: ResourceFlavor, **more: Any) -> Json:
    """The Job after the patch that starts it, as the API server would keep it."""
    given = admission(count, **more)
    return dict(merge(body, batch_job.admission_patch(body, given, flavors)))


def restored(body: Json) -> Json:
    """The Job after it was stopped."""
    patch = batch_job.restore_patch(body)
    assert patch is not None
    return dict(merge(merge(body, {"spec": {"suspend": True}}), patch))


@pytest.mark.parametrize(
    ("annotations", "spec", "least"),
    [
        ({}, {"parallelism": 5}, None),
        ({MIN: "2"}, {"parallelism": 5}, 2),
        ({MIN: "2"}, {"parallelism": 5, "completions": 3}, 2),
        ({MIN: "5"}, {"parallelism": 5}, None),
        ({MIN: "9"}, {"parallelism": 5}, None),
        ({MIN: "0"}, {"parallelism": 5}, None),
        ({MIN: "two"}, {"parallelism": 5}, None),
    ],
)
def test_fewest_pods(annotations: Json, spec: Json, least: int | None) -> None:
    """minCount comes from an annotation; what makes no sense allows nothing."""
    (pods,) = batch_job.pod_sets(job(annotations, **spec))
    assert pods.min_count == least


PROBLEMS: dict[str, tuple[Json, str]] = {
    "fine": (elastic(), ""),
    "as few as all": (job({MIN: "3"}, parallelism=3), ""),
    "more than all": (
        job({MIN: "4"}, parallelism=3),
        f"annotation {MIN} is '4': it takes a whole number from 1 to the number of pods (3)",
    ),
    "none": (job({MIN: "0"}, parallelism=3), "from 1 to the number of pods (3)"),
    "in words": (job({MIN: "two"}, parallelism=3), f"annotation {MIN} is 'two'"),
    "in other digits": (job({MIN: "²"}, parallelism=3), f"annotation {MIN} is '²'"),
    "completions that follow, not indexed": (
        job({EQUAL: "true"}, parallelism=2, completions=2),
        "is for Indexed Jobs whose completions equal their parallelism",
    ),
    "completions that follow, but differ": (
        job({EQUAL: "true"}, parallelism=2, completions=3, completionMode="Indexed"),
        "is for Indexed Jobs whose completions equal their parallelism",
    ),
    "completions that do not follow": (job({EQUAL: "false"}, parallelism=2), ""),
    "neither yes nor no": (job({EQUAL: "yes"}), f"annotation {EQUAL}: 'yes' is not true or false"),
    "a request that cannot be read": (
        job(template={"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}),
        "cpu: 'x' is not a quantity",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str) -> None:
    """What keeps a Job from being admitted anywhere is said in its condition."""
    body, text = PROBLEMS[name]
    found = batch_job.pods_problem(body)
    assert text in found if text else found == ""


def test_the_defaults_of_its_namespace() -> None:
    """Are part of what a Job requests and of what is wrong with it."""
    item = {"type": "Container", "defaultRequest": {"gpu": "2"}, "max": {"cpu": "500m"}}
    defaults = PodDefaults(summarize(limit_items({"spec": {"limits": [item]}})))
    (pods,) = batch_job.pod_sets(job(), defaults)
    assert pods.requests == {"cpu": 1000, "gpu": 2}
    assert "LimitRange's max: cpu 1 > 500m" in batch_job.pods_problem(job(), defaults)
    body = job(managedBy=batch_job.MANAGED_BY)
    assert "LimitRange's max: cpu 1 > 500m" in batch_job.local_job(body, defaults).problem
    assert batch_job.local_job(body).problem == ""


@pytest.mark.parametrize(
    ("text", "seconds", "fine"),
    [
        ("", None, True),
        ("60", 60, True),
        ("1", 1, True),
        ("0", None, False),
        ("-5", None, False),
        ("1.5", None, False),
        ("soon", None, False),
        ("2147483648", None, False),
        ("9" * 5000, None, False),
    ],
)
def test_maximum_execution_time(text: str, seconds: int | None, fine: bool) -> None:
    """A label with seconds; what is none of that is said."""
    body = job()
    body["metadata"]["labels"] = {TIME: text} if text else {}
    assert batch_job.max_execution_seconds(body) == seconds
    assert (TIME not in batch_job.pods_problem(body)) is fine


RECLAIMED: dict[str, tuple[Json, int]] = {
    "nothing has ended": (job(parallelism=5, completions=5), 0),
    "one of one": (job(succeeded=1, parallelism=1, completions=1), 0),
    "as many are left as run at once": (job(succeeded=5, parallelism=5, completions=10), 0),
    "fewer are left": (job(succeeded=7, parallelism=5, completions=10), 2),
    "none is left": (job(succeeded=10, parallelism=5, completions=10), 5),
    "more than enough": (job(succeeded=12, parallelism=5, completions=10), 5),
    "without completions": (job(succeeded=2, parallelism=5), 2),
    "more parallelism than completions": (job(succeeded=1, parallelism=5, completions=3), 1),
    "null counts": (job(succeeded=1, parallelism=2, completions=None), 1),
}


@pytest.mark.parametrize("name", RECLAIMED)
def test_reclaimable_pods(name: str) -> None:
    """kueue-admission.md §8: parallelism less what is left to complete."""
    body, count = RECLAIMED[name]
    assert batch_job.reclaimable_pods(body) == ({"main": count} if count else {})


def test_reclaimable_pods_of_another_run() -> None:
    """The counts of the run count, not those that the Job keeps of earlier ones."""
    body = job(succeeded=7, parallelism=5, completions=10)
    assert batch_job.reclaimable_pods(body, {}) == {}
    assert batch_job.reclaimable_pods(body, {"succeeded": 6}) == {"main": 1}


def test_reclaimable_pods_after_partial_admission() -> None:
    """Are counted from the pods that were asked for: seven run, three of them are still needed."""
    fixed = start(job({MIN: "2"}, parallelism=10, completions=10), 7)
    assert batch_job.reclaimable_pods(fixed, {"succeeded": 7}) == {"main": 7}
    assert batch_job.reclaimable_pods(start(elastic(), 7), {"succeeded": 4}) == {"main": 7}


STARTED: dict[str, tuple[Json, int, Json]] = {
    "all pods": (job({MIN: "2"}, parallelism=10), 10, {"parallelism": 10}),
    "fewer pods": (
        job({MIN: "2"}, parallelism=10, completions=20),
        7,
        {"parallelism": 7, "completions": 20},
    ),
    "fewer pods and completions": (elastic(), 7, {"parallelism": 7, "completions": 7}),
    "more parallelism than completions": (
        job({MIN: "2"}, parallelism=10, completions=5),
        3,
        {"parallelism": 3, "completions": 5},
    ),
    "without leave nothing changes": (
        job(parallelism=10, completions=10),
        7,
        {"parallelism": 10, "completions": 10},
    ),
    "again, when some have ended": (
        job({MIN: "2"}, 6, parallelism=10, completions=10),
        4,
        {"parallelism": 10, "completions": 10},
    ),
    "again, with fewer than are left": (
        job({MIN: "2"}, 6, parallelism=10, completions=10),
        3,
        {"parallelism": 3, "completions": 10},
    ),
    "again, elastic": (elastic(succeeded=6), 3, {"parallelism": 9, "completions": 9}),
    "an annotation that does not fit leaves completions alone": (
        job({MIN: "2", EQUAL: "true"}, parallelism=10, completions=10),
        7,
        {"parallelism": 7, "completions": 10},
    ),
}


@pytest.mark.parametrize("name", STARTED)
def test_started_with_fewer_pods(name: str) -> None:
    """kueue-admission.md §8, Job partial admission; a stop gives all of them back."""
    body, count, expected = STARTED[name]
    running = start(body, count)
    assert running["spec"]["suspend"] is False
    assert {key: running["spec"][key] for key in expected} == expected
    assert batch_job.pod_sets(running) == batch_job.pod_sets(body)
    assert batch_job.pods_problem(running) == batch_job.pods_problem(body)
    assert restored(running) == body


def test_a_copy_with_fewer_pods() -> None:
    """A worker gets no more pods than the global quota was charged for, and may take fewer."""
    made = batch_job.remote_manifest(elastic(), IDENTITY, admission(7))
    assert (made["spec"]["parallelism"], made["spec"]["completions"]) == (7, 7)
    made["metadata"] |= {"uid": "v"}
    (pods,) = batch_job.pod_sets(made)
    assert (pods.count, pods.min_count) == (7, 2)
    assert batch_job.pods_problem(made) == ""
    whole = batch_job.remote_manifest(elastic(), IDENTITY, admission(10))
    assert whole == batch_job.remote_manifest(elastic(), IDENTITY)
    least = batch_job.remote_manifest(elastic(), IDENTITY, admission(2))
    assert batch_job.pods_problem(least | {"metadata": {**least["metadata"], "uid": "v"}}) == ""


F = ResourceFlavor("f", (("card", "a100"), ("zone", "z")), (), (Toleration("gpu", "Exists"),))
ONE = TopologyAssignment(("rack", "host"), ((("r1", "h1"), 3),))
TWO = TopologyAssignment(("host",), ((("h1",), 2), (("h2",), 1)))


def test_only_the_flavors_of_the_pod_set_are_used() -> None:
    """Another flavor is none of its business."""
    running = start(job(), 1, F, ResourceFlavor("g", (("other", "1"),)))
    assert running["spec"]["template"]["spec"]["nodeSelector"] == {"card": "a100", "zone": "z"}


def test_pods_in_one_domain() -> None:
    """The template itself says where; nothing is gated."""
    running = start(job(parallelism=3), 3, F, topology=ONE)
    template = running["spec"]["template"]
    selector = {"card": "a100", "zone": "z", "rack": "r1", "host": "h1"}
    assert template["spec"]["nodeSelector"] == selector
    assert template["metadata"]["labels"] == {"app": "x", "kueue.x-k8s.io/podset": "main"}
    assert "schedulingGates" not in template["spec"]


def test_pods_in_several_domains() -> None:
    """They are gated until each is told where to go; gates that are there stay."""
    body = job(parallelism=3)
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "own"}]
    running = start(body, 3, F, topology=TWO)
    template = running["spec"]["template"]
    gates = [{"name": "own"}, {"name": "kueue.x-k8s.io/topology"}]
    assert template["spec"]["schedulingGates"] == gates
    assert template["spec"]["nodeSelector"] == {"card": "a100", "zone": "z"}
    note = running["metadata"]["annotations"]["fedq.io/admission"]
    assert batch_job.decode_admission(note) == admission(3, topology=TWO)
    assert restored(running) == body


def test_what_checks_add() -> None:
    """Labels, annotations, selectors and tolerations of this pod set's updates."""
    toleration = Toleration("k", "Equal", "v", "NoSchedule")
    updates = [
        PodSetUpdate("main", {"l": "1"}, {"a": "1"}, {"s": "1"}, (toleration,)),
        PodSetUpdate("other", {"no": "1"}),
    ]
    body = job()
    running = dict(merge(body, batch_job.admission_patch(body, admission(1), [F], updates)))
    template = running["spec"]["template"]
    assert template["metadata"] == {"labels": {"app": "x", "l": "1"}, "annotations": {"a": "1"}}
    assert template["spec"]["nodeSelector"] == {"card": "a100", "zone": "z", "s": "1"}
    assert template["spec"]["tolerations"] == [
        {"operator": "Exists", "key": "gpu"},
        {"operator": "Equal", "key": "k", "value": "v", "effect": "NoSchedule"},
    ]
    assert restored(running) == body


def test_disagreements() -> None:
    """kueue-admission.md §8: a Job that cannot be started as admitted says so."""
    body = job()
    assert batch_job.start_problem(body, admission(1), [F]) == ""
    body["spec"]["template"]["spec"]["nodeSelector"] = {"card": "a100", "zone": "y"}
    assert "nodeSelector 'zone' is 'y'" in batch_job.start_problem(body, admission(1), [F])
    update = PodSetUpdate("main", labels={"app": "z"})
    found = batch_job.start_problem(job(), admission(1), [F], [update])
    assert "label 'app' is 'x' and is to become 'z'" in found
    kept = start(body, 1, F)["spec"]["template"]["spec"]["nodeSelector"]
    assert kept == {"card": "a100", "zone": "y"}


def test_started_elsewhere_without_a_stop_in_between() -> None:
    """A start undoes what an earlier one added, so that a lost restore does no harm."""
    first = start(elastic(), 3, F)
    first["spec"]["suspend"] = True
    other = ResourceFlavor("g", (("card", "h100"),))
    assert batch_job.start_problem(first, admission(5, "g"), [other]) == ""
    second = start(first, 5, other, flavor="g")
    assert second["spec"]["template"]["spec"]["nodeSelector"] == {"card": "h100"}
    assert "tolerations" not in second["spec"]["template"]["spec"]
    assert (second["spec"]["parallelism"], second["spec"]["completions"]) == (5, 5)
    assert restored(second) == elastic()


def test_nothing_to_restore() -> None:
    """A Job without a record of an admission is left alone; one without changes loses the note."""
    assert batch_job.restore_patch(job()) is None
    patch = batch_job.restore_patch(start(job(), 1))
    assert patch == {"metadata": {"uid": "u", "annotations": {"fedq.io/admission": None}}}


HOSTILE = {
    "no json": "{",
    "a list": "[]",
    "nothing": "null",
    "deep nesting": "[" * 100_000,
    "no original": json.dumps({"clusterQueue": "q", "podSets": []}),
    "an original that is text": json.dumps({"original": "parallelism"}),
    "a count in text": json.dumps({"original": {"parallelism": "9"}}),
    "a negative count": json.dumps({"original": {"parallelism": -1}}),
    "no count": json.dumps({"original": {"parallelism": None}}),
    "a template that is a list": json.dumps({"original": {"template": []}}),
    "a selector that is a list": json.dumps(
        {"original": {"template": {"spec": {"nodeSelector": [1]}}}}
    ),
    "a selector of numbers": json.dumps(
        {"original": {"template": {"spec": {"nodeSelector": {"a": 1}}}}}
    ),
    "tolerations that are text": json.dumps(
        {"original": {"template": {"spec": {"tolerations": ["a"]}}}}
    ),
    "other parts of the template": json.dumps(
        {"original": {"template": {"spec": {"containers": []}, "metadata": 5}}}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_that_is_none(name: str) -> None:
    """Whoever may write the annotation can neither crash the agent nor change the Job by it."""
    body = job({"fedq.io/admission": HOSTILE[name]}, parallelism=3)
    assert batch_job.pod_sets(body) == batch_job.pod_sets(job(parallelism=3))
    patch = batch_job.restore_patch(body)
    assert patch is not None
    assert "spec" not in patch


TEXTS = st.sampled_from(["", "a", "b"])
MAPS = st.dictionaries(st.sampled_from(["card", "zone", "x"]), TEXTS, max_size=2)
TOLERATIONS = st.lists(
    st.builds(Toleration, TEXTS, st.sampled_from(["Exists", "Equal"]), TEXTS), max_size=2
).map(tuple)
FLAVORS = st.builds(
    lambda labels, given: ResourceFlavor("f", tuple(labels.items()), (), given), MAPS, TOLERATIONS
)


@FEW
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    MAPS,
    st.one_of(st.none(), MAPS),
    FLAVORS,
    st.sampled_from([None, ONE, TWO]),
)
def test_a_stop_undoes_a_start(
    count: int,
    admitted: int,
    labels: Json,
    selector: Json | None,
    flavor: ResourceFlavor,
    topology: TopologyAssignment | None,
) -> None:
    """On the API server, with its rules about what may change when."""
    fake = FakeKube(namespaces=("n",))
    body = elastic(count, 1)
    del body["metadata"]["resourceVersion"], body["metadata"]["creationTimestamp"]
    body["spec"]["template"]["metadata"]["labels"] = labels
    if selector is not None:
        body["spec"]["template"]["spec"]["nodeSelector"] = selector
    fake.create(JOBS, body)

    def write(patch: Json, *, status: bool = False) -> Json:
        return copy.deepcopy(fake.merge(JOBS, "j", patch, "n", status=status))

    before = copy.deepcopy(fake.get(JOBS, "j", "n"))
    given = admission(min(admitted, count), topology=topology)
    running = write(batch_job.admission_patch(before, given, [flavor]))
    assert running["spec"]["parallelism"] == min(admitted, count)
    assert batch_job.pod_sets(running) == batch_job.pod_sets(before)
    write({"status": {"startTime": "2026-01-01T00:00:00Z"}}, status=True)
    write({"spec": {"suspend": True}})
    stopped = write({"status": {"startTime": None}}, status=True)
    after = write(batch_job.restore_patch(stopped) or {})
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")


JSON_VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=2),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON_VALUES, max_size=3)


@FEW
@given(OBJECTS, OBJECTS)
def test_merge_patches(before: Json, after: Json) -> None:
    """A merge patch turns one object into the other, and says nothing where they agree."""
    assert merge(copy.deepcopy(before), merge_patch(before, after)) == after
    assert merge_patch(before, before) == {}
