"""Orders that confirm a fence: all that was bound in the epochs before it is dead, whatever its
policy.

Such an order is good for the fence that stands when it is first seen, and for no other. What is
followed is noted on the Lease by compare-and-swap, so it loses against an agent that comes back;
what is not is taken away, so that nobody follows it later, when it would be about other jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.lease import LeaseSeen, Watch


@dataclass(frozen=True, slots=True)
class Ordered:
    """All below the epoch `below` is dead (0: it names none that can be read). `fresh` is whether
    it was given while this manager watched.
    """

    below: int
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Confirm:
    """Note on the Lease, if it still is at `version`, that all below `epoch` is dead."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The order `about` becomes `text`, or is taken away (None); `why` is told."""

    about: Ordered
    text: str | None
    why: str


def over_below(seen: LeaseSeen) -> int:
    """What was bound below this epoch cannot be started by an agent that renews the Lease: it is
    fenced, or of another physical cluster. 0 if neither.
    """
    return seen.epoch if seen.fenced else seen.own_since


def answer(order: Ordered | None, watch: Watch, *, silent: bool) -> Confirm | Settled | None:
    """What is done about an order; None if it is followed already, or nothing can be said yet.

    Of a cluster that is `silent` and not fenced yet, an order about all up to its epoch puts the
    fence, if it was given meanwhile; an older one may be from before the silence.
    """
    seen = watch.seen
    if order is None:
        return None
    if seen is None:
        return Settled(order, None, "the cluster has no Lease, so there is no fence to confirm")
    if order.below and order.below <= seen.confirmed_below:
        return None
    if silent and order.fresh and order.below == seen.epoch + 1:
        return None
    over = over_below(seen)
    if seen.fenced or (over and order.below):
        return _about(order, seen, over)
    if silent:
        return Settled(order, None, "the cluster is not fenced yet: give the order when it is")
    if watch.unheard:
        return None
    return Settled(
        order,
        None,
        f"the agent of the cluster renews its Lease in epoch {seen.epoch}: give the order when the"
        " cluster is fenced",
    )


def _about(order: Ordered, seen: LeaseSeen, over: int) -> Confirm | Settled:
    if not order.below:
        return Settled(
            order, str(over), f"it names no epoch, and was given for the fence of epoch {over}"
        )
    if order.below == over or (order.below < over and not seen.fenced):
        return Confirm(order.below, seen.version)
    return Settled(
        order,
        None,
        f"it is about epochs below {order.below}, and those that are over are the ones below"
        f" {over}: give it for these if they are meant",
    )
