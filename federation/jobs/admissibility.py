"""Whether pods can be admitted at all: what no quota and no waiting would mend.

Source: the admission specification, sections 1.5 (validation) and 2.4 (nomination-time checks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from federation.core.limit_range import CONTAINER, POD, Wants, excess, violations
from federation.core.quantity import QuantityError
from federation.jobs.claims import claim_problems
from federation.jobs.containers import NO_DEFAULTS, Pod, PodDefaults, exact, read_pod
from federation.jobs.devices import card_problems
from federation.jobs.topology import topology_request

Json = dict[str, Any]

MOST_POD_SETS = 18
_MOST_PODS = 2**31 - 1
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 63


def problem(pod_sets: Sequence[tuple[str, int, Json]], defaults: PodDefaults | None = None) -> str:
    """Why pods of these (name, count, template) cannot be admitted anywhere; '' if they can.

    The sentence goes into the condition QuotaReserved=False with reason Misconfigured.
    """
    names = [name for name, _, _ in pod_sets]
    if len(names) > MOST_POD_SETS:
        return f"a workload has at most {MOST_POD_SETS} pod sets, this one has {len(names)}"
    for name in names:
        if names.count(name) > 1:
            return f"two pod sets have the name {name}: every pod set needs a name of its own"
    for name in names:
        if not (_LABEL.fullmatch(name) and len(name) <= _LONGEST_NAME):
            return (
                f"a pod set would have the name {name[:80]!r}: it takes at most {_LONGEST_NAME}"
                " small letters, digits and '-', beginning and ending with a letter or digit"
            )
    for name, count, template in pod_sets:
        found = "; ".join(_of_template(template, count, defaults or NO_DEFAULTS))
        if found:
            return f"pod set {name}: {found}"
    return ""


def _of_template(template: Json, count: int, defaults: PodDefaults) -> Iterator[str]:
    if count < 0:
        yield f"its number of pods is negative ({count})"
    if count > _MOST_PODS:
        yield f"its number of pods is beyond what can be counted ({_MOST_PODS})"
        return
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        topology_request(annotations, count)
    except ValueError as error:
        yield str(error)
    spec = template.get("spec") or {}
    try:
        pod = read_pod(spec, defaults)
        yield from _negative("overhead", exact(spec.get("overhead")).items())
    except QuantityError as error:
        yield f"a resource request is not valid: {error}"
        return
    yield from _of_pod(pod, defaults)
    yield from card_problems(template, defaults)
    yield from claim_problems(spec, pod.requests(), defaults.claims)


def _of_pod(pod: Pod, defaults: PodDefaults) -> Iterator[str]:
    for container in pod.containers:
        yield from _of_wants(container.where, container.wants)
        if text := violations(container.wants, defaults.limits.get(CONTAINER)):
            yield f"didn't satisfy LimitRange constraints: {container.where}: {text}"
    yield from _of_wants("pod-level resources", pod.own)
    item = defaults.limits.get(POD)
    if item and (text := violations(Wants(pod.requests(), pod.limits()), item)):
        yield f"didn't satisfy LimitRange constraints: the whole pod: {text}"


def _of_wants(where: str, wants: Wants) -> Iterator[str]:
    if "pods" in wants.requests or "pods" in wants.limits:
        yield f"{where}: the resource name 'pods' is kept for the number of pods: remove it"
    yield from _negative(where, [*wants.requests.items(), *wants.limits.items()])
    if text := excess(wants):
        yield f"resource validation failed: {where}: {text}"


def _negative(where: str, amounts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    names = sorted({name for name, value in amounts if value.numerator < 0})
    if names:
        yield f"{where}: {', '.join(names)} must not be negative"
