"""Signs in a manifest that a job goes on where it stopped.

Nothing in Kubernetes says so; these are hints. A job with one of them may still lose its work, and
one without may be safe: the rule that uses them is a warning that can be silenced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from federation.api.names import Option
from fedq.lint.jobs import JobView, Json, Pods, get

_WORD: Final = re.compile(r"checkpoint|ckpt|resume", re.IGNORECASE)


def checkpointing(job: JobView) -> str:
    """The first sign found; '' if there is none."""
    if job.thing.annotations.get(Option.NON_PREEMPTIBLE.value) == "true":
        return "it may not be preempted"
    return next(_signs(job), "")


def _signs(job: JobView) -> Iterator[str]:
    for key in (*job.thing.labels, *job.thing.annotations):
        if _WORD.search(key):
            yield f"key {key}"
    for pods in job.pods:
        yield from _in_pods(pods)


def _in_pods(pods: Pods) -> Iterator[str]:
    meta = pods.template.get("metadata") or {}
    for key in (*(meta.get("labels") or ()), *(meta.get("annotations") or ())):
        if _WORD.search(key):
            yield f"key {key}"
    if pods.spec.get("restartPolicy") == "OnFailure":
        yield "restartPolicy OnFailure"
    for container in pods.spec["containers"]:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        names = [variable["name"] for variable in container.get("env") or ()]
        for text in (*words, *names, *_mounts(container)):
            if _WORD.search(text):
                yield f"{text[:40]!r} in container {container['name']}"


def _mounts(container: Json) -> Iterator[str]:
    mounts = container.get("volumeMounts")
    for mount in mounts if isinstance(mounts, list) else ():
        yield str(get(mount, ("mountPath",)) or "")
