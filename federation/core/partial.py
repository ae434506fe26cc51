"""Partial admission: the largest number of pods, between minimum and wish, that gets quota."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from federation.core.types import PodSet

T = TypeVar("T")


def minimum(pods: PodSet) -> int:
    """The least pods of a set that make sense."""
    return pods.count if pods.min_count is None else pods.min_count


def search(pod_sets: Sequence[PodSet], attempt: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """What `attempt` returns for the largest counts that it does not answer with None.

    Kueue's search: by bisection, as if fewer pods always fitted where more do. Pods are taken
    away in proportion to how many each set can spare.
    """
    spare = [max(0, pods.count - minimum(pods)) for pods in pod_sets]
    total = sum(spare)
    if total == 0:
        return None
    best: T | None = None
    low, high = 0, total + 1
    while low < high:
        step = (low + high) // 2
        answer = attempt(
            tuple(
                pods.count - extra * step // total
                for pods, extra in zip(pod_sets, spare, strict=True)
            )
        )
        if answer is None:
            low = step + 1
        else:
            high, best = step, answer
    return best
