"""Whatever happens, in whatever order it is heard of: the ledger is what a recount of everything
that is written makes it, and after a crash it is the same again.
"""

from __future__ import annotations

import pytest

from federation.core.devices.cards import Amount, Slice
from federation.core.devices.ledger.holding import Holding
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.spaces import by_vendor
from tests.unit.core.devices.ledger_walk import Memory, Walk, World, recount, sums, with_claims

STEPS = 120


def agrees(ledger: Ledger, world: World, memory: Memory) -> None:
    """Holdings, sums of cards and sums of the namespace are those of the recount."""
    expected = with_claims(world, recount(world, memory))
    found = {held.owner: held for held in ledger.holdings()}
    assert found == expected

    counted = sums(expected.values())
    for name in ledger.hosts():
        use = ledger.use(name)
        assert use is not None
        assert use.host == world.hosts[name]
        for (host, uuid), amount in counted.items():
            assert host != name or use.use(uuid).amount == amount
        for uuid, held in use.uses.items():
            assert held.amount == counted.get((name, uuid), (0, 0, 0))
            assert min(held.amount) >= 0
            places = [places_on(owner, uuid) for owner in expected.values() if owner.host == name]
            assert sorted(held.slices) == sorted(place for own in places for place in own)
            assert held.closed == any(
                owner.mutex and uuid in owner.charge()
                for owner in expected.values()
                if owner.host == name
            )
    assert sorted(ledger.hosts()) == sorted(world.hosts)
    assert ledger.totals("team") == total(expected.values())


def places_on(held: Holding, uuid: str) -> set[Slice]:
    """Where a pod has instances on a MIG card, as long as it lives."""
    grants = [grant for grants in held.allocation for grant in grants if grant.uuid == uuid]
    return {grant.slice for grant in grants if grant.slice is not None}


def total(holdings: object) -> dict[str, Amount]:
    """What all of them hold, by vendor."""
    found = Amount()
    for held in holdings:
        assert isinstance(held, Holding)
        for amount in by_vendor(held, held.charge()).values():
            found = found.plus(amount)
    return {"NVIDIA": found} if any(found) else {}


@pytest.mark.parametrize("seed", range(40))
def test_a_life(seed: int) -> None:
    """After every step, with what is only decided, and without it after a crash."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        agrees(walk.ledger, walk.world, walk.memory)
        again = walk.rebuilt()
        agrees(again, walk.world, Memory())
        if walk.memory == Memory():
            assert uses(walk.ledger) == uses(again)


def uses(ledger: Ledger) -> object:
    """All that placement sees."""
    return {name: ledger.use(name) for name in ledger.hosts()}


def test_the_lives_are_full() -> None:
    """Everything that can happen does, and cards are in use, full, and over their limits."""
    seen = set()
    busy = full = over = 0
    for seed in range(12):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            seen.update(walk.log)
            for name in walk.ledger.hosts():
                use = walk.ledger.use(name)
                assert use is not None
                for card in use.host.cards:
                    memory = use.use(card.uuid).amount.memory_mib
                    busy += memory > 0
                    full += memory == card.memory_mib
                    over += memory > card.memory_mib

    assert seen == {name for name in dir(Walk) if name.startswith("do_")}
    assert min(busy, full, over) > 100
