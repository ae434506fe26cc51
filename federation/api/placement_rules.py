"""Placement rules from annotations of jobs and queues, and what operators say of clusters.

Lists are comma-separated. What cannot be understood says nothing but its problem: a job with one is
not placed where its owner may not want it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from federation.api.duration import DurationError, parse_duration
from federation.api.names import Option, Trait
from federation.api.selector_text import parse_selector
from federation.core.placement_rules import NO_RULES, PlacementRules
from federation.core.quantity import QuantityError, exact_quantity
from federation.core.scoring import NO_TRAITS, ClusterTraits

T = TypeVar("T")
MOST_NAMES = 256
"""In one list: each is looked at for each cluster whenever a place is sought."""
_DEAREST = 1e15
_KEYS = (
    Option.CLUSTERS,
    Option.AVOID_CLUSTERS,
    Option.CLUSTER_SELECTOR,
    Option.PREFER_CLUSTERS,
    Option.DATA,
    Option.GIVE_UP_AFTER,
)


def read_rules(notes: Mapping[str, Any]) -> tuple[PlacementRules, list[str]]:
    """What these annotations say, and what of them cannot be understood."""
    problems: list[str] = []
    if not any(key.value in notes for key in _KEYS):
        return NO_RULES, problems

    def read(key: Option, reader: Callable[[str], T]) -> T | None:
        if key.value not in notes:
            return None
        try:
            return reader(str(notes[key.value]))
        except ValueError as error:
            problems.append(f"{key.value}: {error}")
            return None

    selector = read(Option.CLUSTER_SELECTOR, parse_selector)
    rules = PlacementRules(
        clusters=read(Option.CLUSTERS, _few),
        avoid=read(Option.AVOID_CLUSTERS, _few),
        selector=selector,
        selector_text=str(notes[Option.CLUSTER_SELECTOR.value]) if selector is not None else "",
        prefer=read(Option.PREFER_CLUSTERS, _few),
        data=read(Option.DATA, _data),
        give_up_after=read(Option.GIVE_UP_AFTER, _duration),
    )
    return rules, problems


def read_traits(obj: Mapping[str, Any]) -> ClusterTraits:
    """What a MultiKueueCluster says of its cluster. An entry that cannot be read says nothing."""
    meta = obj["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    prices = {}
    for entry in _names(str(notes.get(Trait.COST_PER_HOUR.value, ""))):
        name, _, price = entry.rpartition("=")
        try:
            amount = float(price)
        except ValueError:
            continue
        if name and 0 <= amount <= _DEAREST:  # beyond, sums are no numbers any more
            prices[name.strip()] = amount
    data = frozenset(_names(str(notes.get(Option.DATA.value, ""))))
    return ClusterTraits(labels, prices, data) if labels or prices or data else NO_TRAITS


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _few(text: str) -> tuple[str, ...]:
    found = _names(text)
    if len(found) > MOST_NAMES:
        raise ValueError(f"it has {len(found)} entries: at most {MOST_NAMES} are read")
    return found


def _data(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for entry in _few(text):
        name, equals, size = entry.partition("=")
        try:
            amount = int(exact_quantity(size)) if equals else 1
        except QuantityError as error:
            raise ValueError(f"{entry[:80]!r}: {error}") from error
        if not name or amount <= 0:
            raise ValueError(f"{entry[:80]!r}: write name or name=size, for example images=40Gi")
        found.append((name, amount))
    return tuple(found)


def _duration(text: str) -> float:
    plain = text.isascii() and text.isdigit() and len(text) < 12
    found = float(text) if plain else parse_duration(text)
    if found <= 0:
        raise DurationError(f"{text[:40]!r} is not longer than 0s")
    return found
