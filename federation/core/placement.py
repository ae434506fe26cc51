"""Places in a topology for the pods of an assignment that has its quota."""

from __future__ import annotations

from collections.abc import Sequence

from federation.core.assignment import Assignment
from federation.core.flavors import Market
from federation.core.snapshot import Snapshot
from federation.core.types import PodSet


def place(assignment: Assignment, pod_sets: Sequence[PodSet], market: Market) -> Assignment:
    """todo: waits for the topology search."""
    return assignment


def places_now(assignment: Assignment, pod_sets: Sequence[PodSet], snapshot: Snapshot) -> bool:
    """todo."""
    return True
