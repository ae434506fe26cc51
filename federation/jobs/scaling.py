"""How many pods a batch/v1 Job has: as it asks, as it still needs, as it was admitted with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.names import DEFAULT_POD_SET, Annotation
from federation.api.record import is_elastic
from federation.core.booleans import parse_bool

Json = dict[str, Any]

_LARGEST = 2**31 - 1


def pod_count(spec: Mapping[str, Any]) -> int:
    """Most pods at once: never more than completions need."""
    parallelism = _parallelism(spec)
    return int(min(parallelism, _completions(spec, parallelism)))


def _parallelism(spec: Mapping[str, Any]) -> int:
    given = spec.get("parallelism")
    return 1 if given is None else int(given)


def _completions(spec: Mapping[str, Any], parallelism: int) -> int:
    given = spec.get("completions")
    return parallelism if given is None else int(given)


def min_count(job: Json) -> int | None:
    """Fewest pods that are still useful, from the annotation job-min-parallelism.

    None without it, and where it asks for no less than all; also of elastic Jobs, which grow
    instead. `annotation_problem` tells of one that cannot be read.
    """
    if is_elastic(job):
        return None
    fewest = _number(_annotation(job, Annotation.JOB_MIN_PARALLELISM))
    return fewest if fewest is not None and fewest < pod_count(job["spec"]) else None


def annotation_problem(job: Json) -> str:
    """What is wrong with the annotations of partial admission; '' if nothing is."""
    text = _annotation(job, Annotation.JOB_MIN_PARALLELISM)
    count = pod_count(job["spec"])
    fewest = _number(text)
    if text and (fewest is None or fewest > count):
        return (
            f"annotation {Annotation.JOB_MIN_PARALLELISM} is {text!r}: it takes a whole number from"
            f" 1 to the number of pods ({count})"
        )
    return _equal_problem(job)


def _equal_problem(job: Json) -> str:
    key, spec = Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM, job["spec"]
    try:
        wanted = parse_bool(_annotation(job, key) or "false")
    except ValueError as error:
        return f"annotation {key}: {error}"
    parallelism = _parallelism(spec)
    fitting = spec.get("completionMode") == "Indexed" and spec.get("completions") == parallelism
    if wanted and not fitting:
        return f"annotation {key} is for Indexed Jobs whose completions equal their parallelism"
    return ""


def _annotation(job: Json, key: Annotation) -> str:
    return str((job["metadata"].get("annotations") or {}).get(key.value, ""))


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        return None
    return int(text) if 1 <= int(text) <= _LARGEST else None


def reclaimable(
    asked: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> dict[str, int]:
    """Pods that need no quota any more because too few completions are left, by pod set.

    `asked` is the spec as it was submitted, `spec` as it runs (with fewer pods after partial
    admission), `status` that of the run. The number is counted from `asked`, as pod sets are;
    nothing is reclaimed before the first pod has succeeded. Where parallelism exceeds completions
    Kueue counts the pods that were never wanted too, and frees quota that is in use; this does not.
    """
    succeeded = int(status.get("succeeded") or 0)
    parallelism = _parallelism(spec)
    if succeeded <= 0 or _parallelism(asked) <= 1:
        return {}
    left = max(0, _completions(spec, parallelism) - succeeded)
    count = pod_count(asked) - min(parallelism, left)
    return {DEFAULT_POD_SET: count} if count > 0 else {}


def at_once(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """How many pods of a Job run at one time from now on, as its spec is."""
    parallelism = _parallelism(spec)
    succeeded = int(status.get("succeeded") or 0)
    return int(max(0, min(parallelism, _completions(spec, parallelism) - succeeded)))


def scaled(job: Json, admitted: int, done: int) -> dict[str, int]:
    """The fields of the spec that make a Job run `admitted` pods; empty if it need not change.

    `done` pods are reclaimable. Only Jobs that allow partial admission are changed. With the
    annotation job-completions-equal-parallelism the completions follow, which Kubernetes allows
    for Indexed Jobs as long as both fields are equal.
    """
    if min_count(job) is None or admitted >= pod_count(job["spec"]) - done:
        return {}
    key = Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM
    if _equal_problem(job) or not parse_bool(_annotation(job, key) or "false"):
        return {"parallelism": admitted}
    return {"parallelism": admitted + done, "completions": admitted + done}
