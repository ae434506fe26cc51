"""Copies that are gone while pods of theirs are not: their quota is not free, and no other attempt
may start.

A deletion in the foreground waits for what the object is the owner of. Operators that look at an
object on its way out as at any other (Kubeflow's trainer, KubeRay for RayServices) make anew what
is deleted of it, and that outlives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from manager.pod_watch import Attempt
from manager.protocol import Copy


class Lingering:
    """Until their pods have ended such copies are told of as being deleted."""

    def __init__(self, live: Callable[[Attempt], bool]) -> None:
        """`live` tells whether pods of an attempt have not ended."""
        self._live = live
        self._copies: dict[Attempt, Copy] = {}

    def gone(self, copy: Copy) -> Copy:
        """What is to be told of a copy that is gone."""
        remote = copy.remote
        attempt = Attempt(remote.key.namespace, copy.local_uid, remote.attempt)
        if not self._live(attempt):
            return copy
        self._copies[attempt] = copy
        return replace(copy, remote=replace(remote, gone=False, terminating=True))

    def ended(self, attempt: Attempt) -> Copy | None:
        """What is to be told when pods of an attempt have changed."""
        return None if self._live(attempt) else self._copies.pop(attempt, None)

    def of(self, kind: str) -> frozenset[str]:
        """UIDs of the jobs of a kind that have such copies."""
        found = (copy for copy in self._copies.values() if copy.remote.kind == kind)
        return frozenset(copy.local_uid for copy in found)
