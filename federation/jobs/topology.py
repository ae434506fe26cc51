"""Topology-aware placement of pods: what templates ask for, and where each pod is let go to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from federation.api.names import Annotation, Gate
from federation.core.booleans import parse_bool
from federation.core.types import TopologyAssignment, TopologyMode, TopologyRequest
from federation.jobs.pod_state import ended, gated

Json = dict[str, Any]

MOST_LAYERS = 3
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def topology_request(annotations: Mapping[str, str], count: int) -> TopologyRequest | None:
    """What the annotations of a pod template ask for; None without any.

    Slices alone are unconstrained ones. Raises ValueError with a sentence that names the
    annotation when they contradict each other or cannot be read.
    """
    required = annotations.get(Annotation.POD_SET_REQUIRED_TOPOLOGY)
    preferred = annotations.get(Annotation.POD_SET_PREFERRED_TOPOLOGY)
    unconstrained = _flag(annotations, Annotation.POD_SET_UNCONSTRAINED_TOPOLOGY)
    slices = _slices(annotations, count)
    group = annotations.get(Annotation.POD_SET_GROUP_NAME, "")
    if (required is not None) + (preferred is not None) + unconstrained > 1:
        raise ValueError(
            f"annotations {Annotation.POD_SET_REQUIRED_TOPOLOGY},"
            f" {Annotation.POD_SET_PREFERRED_TOPOLOGY} and"
            f" {Annotation.POD_SET_UNCONSTRAINED_TOPOLOGY} exclude each other: keep one"
        )
    if group and (slices or (required is None and preferred is None)):
        raise ValueError(
            f"annotation {Annotation.POD_SET_GROUP_NAME} needs a required or preferred topology"
            " and allows no slices"
        )
    if required is not None:
        return TopologyRequest(TopologyMode.REQUIRED, required, slices, group)
    if preferred is not None:
        return TopologyRequest(TopologyMode.PREFERRED, preferred, slices, group)
    if unconstrained or slices:
        return TopologyRequest(TopologyMode.UNCONSTRAINED, "", slices)
    return None


def _flag(annotations: Mapping[str, str], key: Annotation) -> bool:
    try:
        return parse_bool(annotations.get(key, "false"))
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None


def _slices(annotations: Mapping[str, str], count: int) -> tuple[tuple[str, int], ...]:
    """(level, size) from the outermost inwards."""
    level = annotations.get(Annotation.POD_SET_SLICE_REQUIRED_TOPOLOGY)
    size = annotations.get(Annotation.POD_SET_SLICE_SIZE)
    layers = annotations.get(Annotation.POD_SET_SLICE_CONSTRAINTS)
    if (level is None) != (size is None) or (layers is not None and level is not None):
        raise ValueError(
            f"annotations {Annotation.POD_SET_SLICE_REQUIRED_TOPOLOGY} and"
            f" {Annotation.POD_SET_SLICE_SIZE} go together, or"
            f" {Annotation.POD_SET_SLICE_CONSTRAINTS} stands alone"
        )
    if layers is not None:
        slices = _layers(layers)
    elif level is not None and size is not None:
        slices = ((level, _size(size)),)
    else:
        return ()
    if slices[0][1] > count:
        raise ValueError(f"a topology slice of {slices[0][1]} pods is larger than the {count} pods")
    return slices


def _layers(text: str) -> tuple[tuple[str, int], ...]:
    key = Annotation.POD_SET_SLICE_CONSTRAINTS
    try:
        slices = tuple((str(item["topology"]), _size(item["size"])) for item in json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f'annotation {key} is not a list like [{{"topology": "rack-label", "size": 4}}]'
        ) from None
    if not 1 <= len(slices) <= MOST_LAYERS or len({level for level, _ in slices}) < len(slices):
        raise ValueError(f"annotation {key} takes 1 to {MOST_LAYERS} different levels")
    for (_, outer), (level, inner) in pairwise(slices):
        if outer % inner:
            raise ValueError(
                f"annotation {key}: slices of {outer} pods cannot be cut into slices of {inner}"
                f" ({level})"
            )
    return slices


def _size(value: str | int) -> int:
    text = str(value)
    size = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else 0
    if not 1 <= size < 2**31:
        raise ValueError(f"{value!r} is not a slice size: write a whole number from 1")
    return size


def selectors(assignment: TopologyAssignment) -> Iterator[tuple[dict[str, str], int]]:
    """The node selector of each domain, and how many pods go there."""
    for values, count in assignment.domains:
        yield dict(zip(assignment.levels, values, strict=True)), count


class Release(NamedTuple):
    """A gated pod and the node selector under which its gate may be removed."""

    pod: str
    node_selector: dict[str, str]


def releases(assignment: TopologyAssignment, pods: Iterable[Json]) -> list[Release]:
    """Which gated pods of a pod set may go where now.

    Pods whose completion indexes are known and distinct go by index, so that neighbours in rank
    are neighbours in place; else, and when some are elsewhere already (a node was lost and
    replaced), by name into what the domains have left. Pods that ended make room for those that
    replace them.
    """
    live = [pod for pod in pods if not ended(pod)]
    places = [(selector, count) for selector, count in selectors(assignment)]
    seats = [selector for selector, count in places for _ in range(count)]
    waiting = sorted((pod for pod in live if _gated(pod)), key=lambda pod: pod["metadata"]["name"])
    ranks = [completion_index(pod) for pod in live]
    distinct = len(set(ranks)) == len(ranks) and all(0 <= rank < len(seats) for rank in ranks)
    if distinct and all(_gated(pod) or _sits(pod, seats[completion_index(pod)]) for pod in live):
        return [Release(pod["metadata"]["name"], seats[completion_index(pod)]) for pod in waiting]
    for pod in live:
        if not _gated(pod):
            seat = next((seat for seat in seats if _sits(pod, seat)), None)
            if seat is not None:
                seats.remove(seat)
    names = (pod["metadata"]["name"] for pod in waiting)
    return [Release(name, seat) for name, seat in zip(names, seats, strict=False)]


def _sits(pod: Json, seat: Mapping[str, str]) -> bool:
    return seat.items() <= (pod["spec"].get("nodeSelector") or {}).items()


def _gated(pod: Json) -> bool:
    return gated(pod["spec"], Gate.TOPOLOGY)


def completion_index(pod: Json) -> int:
    """The completion index of a pod of an Indexed Job; -1 if it has none."""
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    text = str(labels.get(COMPLETION_INDEX, annotations.get(COMPLETION_INDEX, "")))
    return int(text) if text.isdecimal() and len(text) < 10 else -1
