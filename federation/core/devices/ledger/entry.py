"""What follows of one pod for the ledger: what it holds, which seat it has, what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from federation.core.devices.ledger.cards import Unnamed
from federation.core.devices.ledger.holding import Holding, Replica, State
from federation.core.devices.ledger.observed import ObservedPod


class Entry(NamedTuple):
    """`doubt` is a host and why nothing new may go there, `unnamed` a host and how many cards of
    it the pod has that nobody named.
    """

    holding: Holding | None = None
    seat: Replica | None = None
    doubt: tuple[str, str] | None = None
    unnamed: tuple[str, Unnamed] | None = None


NOTHING = Entry()


def entry_of(
    pod: ObservedPod,
    seat: Replica | None,
    decided: Holding | None,
    last: Holding | None,
    lapsed: float | None,
) -> Entry:
    """Of a pod that may run. What was `decided` for it holds until it is bound, whatever somebody
    wrote on it; then what its annotations say, unless they tell of less of the same cards; if they
    cannot be read, what it held at `last`. A placement by another scheduler that was not followed
    by a binding until `lapsed` is void.
    """
    if decided is not None and not pod.node:
        return Entry(decided, seat)
    if pod.trouble:
        host = pod.node or pod.placed_on
        why = f"what pod {pod.uid} has is not known: {pod.trouble}"
        known = replace(last, init_done=False) if last else decided
        known = _there(pod, known) if pod.node else known
        return Entry(known, seat, (host, why) if host else None)
    noted = pod.noted()
    if noted is not None and not pod.node:
        return Entry(None if noted.deadline == lapsed else noted, seat)
    holding = decided if _lessened(noted, decided) else noted or decided
    if holding is None:
        asks = pod.node and pod.asks
        return Entry(seat=seat, unnamed=(pod.node, pod.asks) if asks else None)
    if holding.host != pod.node:
        why = f"pod {pod.uid} runs here and was given cards of {holding.host}: delete it"
        return Entry(seat=seat, doubt=(pod.node, why))
    return Entry(_there(pod, holding), seat)


def _lessened(noted: Holding | None, decided: Holding | None) -> bool:
    """Whether the notes of a pod tell of less than it was given, of the very same cards: they were
    changed afterwards, and its device plugin has handed out what was decided.
    """
    if noted is None or decided is None or noted.host != decided.host:
        return False
    pairs = list(zip(noted.allocation, decided.allocation, strict=False))
    same = len(noted.allocation) == len(decided.allocation) and all(
        [grant.uuid for grant in now] == [grant.uuid for grant in then] for now, then in pairs
    )
    return same and any(
        new.memory_mib < old.memory_mib or new.cores < old.cores
        for now, then in pairs
        for new, old in zip(now, then, strict=True)
    )


def _there(pod: ObservedPod, decided: Holding | None) -> Holding | None:
    """As it is where the pod is bound."""
    if decided is None or decided.host != pod.node:
        return None
    state, done = max(decided.state, pod.state), decided.init_done or pod.init_done
    return replace(decided, state=State(state), deadline=None, init_done=done)
