"""Which orders that confirm a fence are followed, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from federation.core.confirming import Confirm, Ordered, Settled, answer
from federation.core.lease import LeaseSeen, Watch
from federation.core.renewals import Renewal, Renewals

ALIVE = LeaseSeen(7, epoch=3, renewed="now", holder="agent")
FENCED = replace(ALIVE, fenced=True)
OTHER = replace(ALIVE, own_since=3)
HEARD = Renewals(Renewal("now", 0.0, 30.0, came=True))

REFUSED: dict[str, tuple[LeaseSeen | None, bool, Ordered, str]] = {
    "there is no Lease": (None, False, Ordered(3), "no Lease"),
    "its agent renews": (ALIVE, False, Ordered(4, fresh=True), "renews its Lease in epoch 3"),
    "its agent is back": (ALIVE, False, Ordered(3, fresh=True), "renews its Lease in epoch 3"),
    "no epoch, its agent renews": (ALIVE, False, Ordered(0, fresh=True), "renews its Lease"),
    "from before the silence, maybe": (ALIVE, True, Ordered(4), "not fenced yet"),
    "no epoch, not fenced yet": (ALIVE, True, Ordered(0, fresh=True), "not fenced yet"),
    "epochs to come, not fenced yet": (ALIVE, True, Ordered(9, fresh=True), "not fenced yet"),
    "an earlier fence": (FENCED, False, Ordered(2, fresh=True), "the ones below 3"),
    "a later fence": (FENCED, False, Ordered(4, fresh=True), "the ones below 3"),
    "later than another cluster has it": (OTHER, False, Ordered(4), "the ones below 3"),
    "no epoch, another cluster has its name": (OTHER, False, Ordered(0), "renews its Lease"),
    "and that is silent": (OTHER, True, Ordered(0, fresh=True), "not fenced yet"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    seen, silent, order, why = REFUSED[name]
    found = answer(order, Watch(seen, renewals=HEARD), silent=silent)
    assert isinstance(found, Settled)
    assert (found.about, found.text) == (order, None)
    assert why in found.why


OTHERS: dict[str, tuple[LeaseSeen, bool, Ordered | None, Confirm | Settled | None]] = {
    "none": (FENCED, False, None, None),
    "the fence that stands": (FENCED, False, Ordered(3), Confirm(3, 7)),
    "followed": (replace(FENCED, confirmed_below=3), False, Ordered(3), None),
    "followed, and its agent is back": (replace(ALIVE, confirmed_below=3), False, Ordered(3), None),
    "what another cluster had": (OTHER, False, Ordered(3), Confirm(3, 7)),
    "what it had before": (OTHER, False, Ordered(2), Confirm(2, 7)),
    "silent since, and not fenced: it is": (ALIVE, True, Ordered(4, fresh=True), None),
    "so is one that took the name of another": (OTHER, True, Ordered(4, fresh=True), None),
    "of which the one before is dead": (OTHER, True, Ordered(3), Confirm(3, 7)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_followed(name: str) -> None:
    seen, silent, order, expected = OTHERS[name]
    assert answer(order, Watch(seen, renewals=HEARD), silent=silent) == expected


def test_without_an_epoch_it_gets_the_one_that_it_is_for() -> None:
    found = answer(Ordered(0), Watch(FENCED), silent=False)
    assert isinstance(found, Settled)
    assert found.text == "3"


def test_a_manager_that_has_not_heard_of_the_agent_waits() -> None:
    """For the first renewal, or the silence."""
    assert answer(Ordered(4), Watch(ALIVE), silent=False) is None
    assert isinstance(answer(Ordered(4), Watch(ALIVE), silent=True), Settled)
