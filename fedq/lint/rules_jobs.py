"""Jobs: whether they are queued, and whether the API server takes their resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from federation.api.disconnect import rerun_after_problem
from federation.api.fields import DNS_LABEL_PATTERN
from federation.api.names import (
    JOB_CONTROLLER,
    KUEUE_GROUP,
    Annotation,
    Controller,
    Label,
    Option,
)
from federation.api.problems import Path, dotted, suggest
from federation.core.failover import OnDisconnect
from federation.core.quantity import exact_quantity
from fedq.lint.finding import Finding, Rule, Severity
from fedq.lint.jobs import JobView, Pods, get
from fedq.lint.world import World

Json = dict[str, Any]

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
_WHOLE_LABELS: Final = (Label.MAX_EXEC_TIME_SECONDS,)
_WHOLE_ANNOTATIONS: Final = (Annotation.JOB_MIN_PARALLELISM, Annotation.POD_GROUP_TOTAL_COUNT)
_CHOICES: Final = {Option.ON_DISCONNECT: tuple(map(str, OnDisconnect))}


def no_queue(world: World) -> Iterator[Finding]:
    """A job that no queue ever sees."""
    label = Label.QUEUE_NAME.value
    for job in world.jobs:
        if not job.needs_queue or job.queue:
            continue
        said = f"it names no queue and {_fate(job)}"
        where = dotted(job.queue_path[:-1])
        todo = f"add the label {label}: NAME (of a LocalQueue) to {where}"
        yield Finding(job.thing, said, todo, job.queue_path[:-1])


def _fate(job: JobView) -> str:
    if job.suspended:
        return "is suspended: nothing will ever start it"
    return "starts at once, past all quotas"


def not_suspended(world: World) -> Iterator[Finding]:
    """A queued job that can start before its queue says so."""
    for job in world.jobs:
        if job.needs_queue and job.queue and not job.suspended:
            field = dotted(job.suspend_path)
            said = f"{field} is not true: without an admission policy or webhook it starts at once"
            todo = f"set {field}: true (Fedq's management cluster sets it on Jobs by policy)"
            yield Finding(job.thing, said, todo, job.suspend_path)


def managed_by(world: World) -> Iterator[Finding]:
    """A Job that is left to another controller."""
    path: Path = ("spec", "managedBy")
    for thing in world.of("Job", "batch"):
        manager = get(thing.body, path)
        if manager not in (None, JOB_CONTROLLER, Controller.MULTIKUEUE.value):
            said = f"spec.managedBy is {manager}: Fedq leaves such Jobs alone"
            yield Finding(thing, said, "remove it", path)


def restart_policy(world: World) -> Iterator[Finding]:
    """Pods of a Job end."""
    for kind, path in _JOB_PODS:
        for thing in world.of(kind, "batch"):
            policy = get(thing.body, (*path, "restartPolicy"))
            if policy not in ("Never", "OnFailure"):
                said = f"restartPolicy is {policy or 'not set (Always)'}"
                todo = "set it to Never or OnFailure in the pod template"
                yield Finding(thing, said, todo, (*path, "restartPolicy"))


_JOB_PODS: Final[tuple[tuple[str, Path], ...]] = (
    ("Job", ("spec", "template", "spec")),
    ("CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
)


def container(world: World) -> Iterator[Finding]:
    """A container without what it runs, or without a name that can be one."""
    for job in world.jobs:
        for pods in job.pods if job.thing.group != KUEUE_GROUP else ():
            for path, found in _containers(pods):
                name = found["name"]
                if not found.get("image"):
                    yield Finding(job.thing, f"{dotted(path)}: it has no image", "set image", path)
                if len(name) > 63 or not re.fullmatch(DNS_LABEL_PATTERN, name):
                    said = f"{dotted(path)}: {name!r} cannot be the name of a container"
                    todo = "use a-z, 0-9 and '-', with a letter or digit at both ends"
                    yield Finding(job.thing, said, todo, (*path, "name"))


def pod_resources(world: World) -> Iterator[Finding]:
    """Requests and limits that the API server refuses in pods."""
    for job in world.jobs:
        for pods in job.pods if job.thing.group != KUEUE_GROUP else ():
            for path, container in _containers(pods):
                resources = container.get("resources") or {}
                for message in _refused(resources.get("requests") or {}, resources):
                    said = f"{dotted(path)}: {message}"
                    yield Finding(job.thing, said, "correct the resources", (*path, "resources"))


def _containers(pods: Pods) -> Iterator[tuple[Path, Json]]:
    for part in ("initContainers", "containers"):
        for index, container in enumerate(pods.spec.get(part) or ()):
            yield (*pods.path, "spec", part, index), container


def _refused(requests: Json, resources: Json) -> Iterator[str]:
    """Kubernetes' rules of core/v1 ResourceRequirements."""
    limits = resources.get("limits") or {}
    for name in {**requests, **limits}:
        if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
            yield f"{name} is no resource of Kubernetes{suggest(name, _NATIVE)}"
        elif name == "pods":
            yield "the resource pods is counted by the queue and cannot be requested"
        elif _is_extended(name):
            yield from _extended(name, requests.get(name), limits.get(name))
        elif name in requests and name in limits and _exact(requests, name) > _exact(limits, name):
            yield f"request {requests[name]} of {name} is above its limit {limits[name]}"


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _extended(name: str, request: Any, limit: Any) -> Iterator[str]:
    if limit is None:
        yield f"{name} is requested without a limit: devices need both alike"
    elif request is not None and exact_quantity(str(request)) != exact_quantity(str(limit)):
        yield f"request {request} of {name} differs from its limit {limit}: devices need both alike"
    if limit is not None and exact_quantity(str(limit)).denominator != 1:
        yield f"{name} must be a whole number, not {limit}"


def _exact(values: Json, name: str) -> Any:
    return exact_quantity(str(values[name]))


def bad_option(world: World) -> Iterator[Finding]:
    """Labels and annotations with values that are passed over."""
    for thing in world.things:
        for part, keys in (("labels", _WHOLE_LABELS), ("annotations", _WHOLE_ANNOTATIONS)):
            for key in keys:
                value = get(thing.meta, (part, key.value))
                if value is not None and not _is_positive(value):
                    said = f"{key} is {value!r}: a whole number from 1 is expected"
                    yield Finding(thing, said, "correct it", ("metadata", part, key.value))
        for option, choices in _CHOICES.items():
            chosen = thing.annotations.get(option.value)
            if chosen is not None and chosen not in choices:
                said = f"{option} is {chosen!r}{suggest(chosen, choices)}"
                todo = f"write one of {', '.join(choices)}"
                yield Finding(thing, said, todo, ("metadata", "annotations", option.value))
        after = thing.annotations.get(Option.RERUN_AFTER.value)
        if after is not None and (problem := rerun_after_problem(after)):
            path = ("metadata", "annotations", Option.RERUN_AFTER.value)
            yield Finding(thing, f"{Option.RERUN_AFTER}: {problem}", "correct it", path)
    for job in world.jobs:
        parallelism = get(job.thing.body, ("spec", "parallelism"))
        if job.min_count and isinstance(parallelism, int) and job.min_count > parallelism:
            fewest = Annotation.JOB_MIN_PARALLELISM.value
            said = f"{fewest} {job.min_count} is above parallelism {parallelism}"
            yield Finding(job.thing, said, "lower it", ("metadata", "annotations", fewest))


def _is_positive(value: str) -> bool:
    return value.isascii() and value.isdecimal() and 0 < int(value[:10]) < 2**31


RULES: Final = (
    Rule("no-queue", Severity.WARNING, no_queue),
    Rule("not-suspended", Severity.WARNING, not_suspended),
    Rule("managed-by", Severity.WARNING, managed_by),
    Rule("restart-policy", Severity.REFUSED, restart_policy),
    Rule("container", Severity.REFUSED, container),
    Rule("pod-resources", Severity.REFUSED, pod_resources),
    Rule("bad-option", Severity.WARNING, bad_option),
)
