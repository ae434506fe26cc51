"""What queues: Jobs, other kinds of jobs, Pods and hand-written Workloads, seen alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from federation.api.names import DEFAULT_POD_SET, KUEUE_GROUP, Annotation, Label
from federation.api.problems import Path
from federation.core.types import PodSet
from federation.jobs.pods import pod_set
from fedq.lint.finding import Thing

Json = dict[str, Any]

_SUSPEND: Final[Mapping[tuple[str, str], Path]] = {
    ("batch", "Job"): ("spec", "suspend"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "suspend"),
    ("jobset.x-k8s.io", "JobSet"): ("spec", "suspend"),
    ("kubeflow.org", "PyTorchJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org", "TFJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org", "XGBoostJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org", "PaddleJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org", "JAXJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org", "MPIJob"): ("spec", "runPolicy", "suspend"),
    ("trainer.kubeflow.org", "TrainJob"): ("spec", "suspend"),
    ("ray.io", "RayCluster"): ("spec", "suspend"),
    ("ray.io", "RayJob"): ("spec", "suspend"),
}
"""Kinds that are only useful in a queue, and their field that holds them back."""
_COUNTS: Final = ("replicas", "numOfHosts")
_DEEPEST: Final = 12


@dataclass(frozen=True, slots=True)
class Pods:
    """One sort of pods of a job. `path` leads to the object that has their `spec`."""

    path: Path
    template: Json
    count: int

    @property
    def spec(self) -> Json:
        """Their pod spec."""
        spec: Json = self.template["spec"]
        return spec

    def as_set(self, name: str = DEFAULT_POD_SET) -> PodSet:
        """As the core sees them. Raises QuantityError."""
        return pod_set(name, self.count, self.template)


@dataclass(frozen=True, slots=True)
class JobView:
    """Something that asks a queue for quota. `queue` is '' when it names none."""

    thing: Thing
    queue: str
    queue_path: Path
    priority_class: str
    pods: tuple[Pods, ...]
    suspend_path: Path = ()
    """Empty for kinds that cannot be held back by a field."""
    min_count: int | None = None

    @property
    def suspended(self) -> bool:
        """Whether it waits until a queue lets it start."""
        return get(self.thing.body, self.suspend_path) is True

    @property
    def needs_queue(self) -> bool:
        """Whether it is of a kind that is meant to be queued."""
        return bool(self.suspend_path)


def get(body: Any, path: Path) -> Any:
    """The value of a field, None when it is not there."""
    for part in path:
        if isinstance(body, dict):
            body = body.get(part)
        elif isinstance(body, list) and isinstance(part, int) and part < len(body):
            body = body[part]
        else:
            return None
    return body


def view(thing: Thing) -> JobView | None:
    """The job in a thing; None when there is none, or when its pods cannot be understood."""
    if thing.group == KUEUE_GROUP:
        return _workload(thing) if thing.kind == "Workload" else None
    pods = tuple(_pods(thing))
    suspend = _SUSPEND.get((thing.group, thing.kind), ())
    home: Path = ("metadata",)
    if thing.kind == "CronJob":
        home = ("spec", "jobTemplate", "metadata")
    labels = get(thing.body, (*home, "labels"))
    labels = labels if isinstance(labels, dict) else {}
    if not pods and Label.QUEUE_NAME.value not in labels and not suspend:
        return None
    fewest = thing.annotations.get(Annotation.JOB_MIN_PARALLELISM.value, "")
    return JobView(
        thing,
        str(labels.get(Label.QUEUE_NAME.value, "")),
        (*home, "labels", Label.QUEUE_NAME.value),
        str(labels.get(Label.PRIORITY_CLASS.value, "")),
        pods,
        suspend,
        int(fewest) if fewest.isascii() and fewest.isdecimal() and len(fewest) < 10 else None,
    )


def _workload(thing: Thing) -> JobView:
    spec = thing.body["spec"]
    ref = spec.get("priorityClassRef") or {}
    own = ref.get("name", "") if ref.get("kind") == "WorkloadPriorityClass" else ""
    pods = tuple(
        Pods(("spec", "podSets", i, "template"), s["template"], s.get("count", 1))
        for i, s in enumerate(spec["podSets"])
        if _has_containers(s["template"])
    )
    fewest = [s["minCount"] for s in spec["podSets"] if s.get("minCount")]
    return JobView(
        thing,
        spec.get("queueName") or "",
        ("spec", "queueName"),
        own,
        pods,
        min_count=fewest[0] if fewest else None,
    )


def _pods(thing: Thing) -> Iterator[Pods]:
    if thing.kind == "Pod":
        if _has_containers(thing.body):
            yield Pods((), thing.body, 1)
        return
    yield from _templates(thing.body.get("spec"), ("spec",), 1)


def _templates(node: Any, path: Path, count: int) -> Iterator[Pods]:
    """Pod templates anywhere below `node`, with the product of the counts on the way."""
    if len(path) > _DEEPEST:
        return
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _templates(item, (*path, index), count)
    if not isinstance(node, dict):
        return
    count *= _replicas(node)
    for key, value in node.items():
        if key == "template" and _has_containers(value):
            yield Pods((*path, key), value, count)
        else:
            yield from _templates(value, (*path, key), count)


def _replicas(node: Json) -> int:
    """How many there are of what `node` describes: replicas, or pods of a Job at a time."""
    total = 1
    for name in _COUNTS:
        value = node.get(name)
        total *= value if _is_count(value) else 1
    parallelism, completions = node.get("parallelism"), node.get("completions")
    if _is_count(parallelism):
        total *= min(parallelism, completions) if _is_count(completions) else parallelism
    return total


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _has_containers(template: Any) -> bool:
    containers = get(template, ("spec", "containers"))
    return isinstance(containers, list) and all(isinstance(c, dict) for c in containers)
