"""Cards that ResourceClaims were allocated: counted once, as the claim's, and not as the pod's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from federation.core.devices.ledger.holding import Holding


class Claimed(NamedTuple):
    """An allocated claim: its UID, the pods that it is reserved for, and what it holds, one entry
    per host. Without entries it is allocated no more.
    """

    uid: str
    pods: tuple[str, ...]
    holdings: tuple[Holding, ...] = ()

    def owned(self) -> Iterator[Holding]:
        """What it holds in its own name: on further hosts, that with the name of the host."""
        for number, held in enumerate(self.holdings):
            yield replace(held, owner=f"{self.uid}@{held.host}" if number else self.uid)


class Claims:
    """Allocated claims, and which cards pods have by them."""

    def __init__(self) -> None:
        self._claims: dict[str, Claimed] = {}
        self._by_pod: dict[str, set[str]] = {}

    def put(self, claim: Claimed) -> Claimed:
        """As a claim is now; as it was before."""
        before = self._claims.pop(claim.uid, Claimed(claim.uid, ()))
        for pod in before.pods:
            self._by_pod[pod].discard(claim.uid)
            if not self._by_pod[pod]:
                del self._by_pod[pod]
        if claim.holdings:
            self._claims[claim.uid] = claim
            for pod in claim.pods:
                self._by_pod.setdefault(pod, set()).add(claim.uid)
        return before

    def less(self, pod: str, holding: Holding | None) -> Holding | None:
        """What a pod holds besides what its claims hold; None if that is nothing."""
        claims = self._by_pod.get(pod)
        if holding is None or not claims:
            return holding
        given = set(_cards(held for uid in claims for held in self._claims[uid].holdings))
        left = tuple(
            tuple(grant for grant in grants if (holding.host, grant.uuid) not in given)
            for grants in holding.allocation
        )
        return replace(holding, allocation=left) if any(left) else None


def _cards(holdings: Iterable[Holding]) -> Iterator[tuple[str, str]]:
    for held in holdings:
        for grants in held.allocation:
            for grant in grants:
                yield held.host, grant.uuid
