"""What claims ask quota for: vectors of the rules, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.claims.charge import charge, rounded
from federation.core.devices.claims.claims import (
    HAMI_DRIVER,
    Alternatives,
    Capacity,
    ClaimError,
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceClassMapping,
    DeviceRequest,
    DeviceRules,
    Source,
    SourceKind,
)
from federation.core.devices.claims.inventory import Inventory

GI, MI = 2**30, 2**20
MEMORY, CORES = f"{HAMI_DRIVER}/memory", f"{HAMI_DRIVER}/cores"
IS_CARD = f"device.driver == '{HAMI_DRIVER}'"
CLASS = DeviceClass("hami-gpu", (IS_CARD,))


def q(value: float) -> Fraction:
    return Fraction(value)


def card(number: int, gib: int = 80, **more: object) -> Device:
    """A card as HAMi's driver publishes it."""
    found = Device(
        HAMI_DRIVER,
        "node-1",
        f"hami-gpu-{number}",
        "node-1",
        {f"{HAMI_DRIVER}/minor": number, f"{HAMI_DRIVER}/productName": f"Card {gib}"},
        {
            MEMORY: Capacity(q(gib * GI), None, (), q(MI), q(gib * GI), q(MI)),
            CORES: Capacity(q(100), q(100), (), q(0), q(100), q(1)),
        },
        shared=True,
    )
    return replace(found, **more)


CARDS = Inventory([card(0), card(1), card(2, 40)], [CLASS])
COUNT = DeviceClassMapping("cards", ("hami-gpu",))
BY_MEMORY = DeviceClassMapping(
    "gpu-memory", ("hami-gpu",), (Source(SourceKind.CAPACITY, "memory", HAMI_DRIVER, IS_CARD),)
)
BY_CORES = DeviceClassMapping(
    "gpu-cores", ("hami-gpu",), (Source(SourceKind.CAPACITY, CORES, HAMI_DRIVER),)
)
ALL_THREE = DeviceRules((COUNT, BY_MEMORY, BY_CORES))


def ask(count: int = 1, *selectors: str, **capacity: float) -> DeviceRequest:
    amounts = tuple(sorted((name, q(value)) for name, value in capacity.items()))
    return DeviceRequest("hami-gpu", count, selectors, amounts)


def claim(*requests: DeviceRequest | Alternatives) -> ClaimSpec:
    return ClaimSpec(tuple((f"r{index}", request) for index, request in enumerate(requests)))


BIG = "device.attributes['hami-core-gpu.project-hami.io'].productName == 'Card 80'"

CHARGES = {
    "devices by number": (DeviceRules((COUNT,)), claim(ask(3)), {"cards": 3}),
    "memory 4Gi of two cards": (
        DeviceRules((BY_MEMORY,)), claim(ask(2, memory=4 * GI)), {"gpu-memory": 8589934592},
    ),
    "memory, compute and cards of one class at once": (
        ALL_THREE, claim(ask(2, memory=4 * GI, cores=30)),
        {"cards": 2, "gpu-memory": 8 * GI, "gpu-cores": 60},
    ),
    "a name with its domain": (
        DeviceRules((BY_MEMORY,)), claim(ask(1, **{MEMORY: GI})), {"gpu-memory": GI},
    ),
    "rounded up to a step": (
        DeviceRules((BY_MEMORY,)), claim(ask(1, memory=GI + 1)), {"gpu-memory": GI + MI},
    ),
    "up to the smallest amount": (
        DeviceRules((BY_MEMORY,)), claim(ask(1, memory=1)), {"gpu-memory": MI},
    ),
    "not asked for: the default, else all of the largest card": (
        ALL_THREE, claim(ask(1)), {"cards": 1, "gpu-memory": 80 * GI, "gpu-cores": 100},
    ),
    "a card too small cannot be the one": (
        DeviceRules((BY_MEMORY,)), claim(ask(1, memory=60 * GI)), {"gpu-memory": 60 * GI},
    ),
    "only cards that the request chooses": (
        DeviceRules((BY_MEMORY,)),
        claim(ask(1, "!(" + BIG + ")")), {"gpu-memory": 40 * GI},
    ),
    "requests add up": (
        ALL_THREE, claim(ask(1, memory=GI, cores=10), ask(2, memory=2 * GI, cores=0)),
        {"cards": 3, "gpu-memory": 5 * GI, "gpu-cores": 10},
    ),
    "access for administrators costs nothing": (
        ALL_THREE, claim(replace(ask(9), admin_access=True)), {},
    ),
    "alternatives by their largest count": (
        DeviceRules((COUNT,), alternatives=True),
        claim(Alternatives((ask(1), ask(4), ask(2)))), {"cards": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARGES)
def test_charge(name: str) -> None:
    rules, asked, expected = CHARGES[name]
    assert charge(asked, CARDS, rules) == expected


def by_unknown(kind: SourceKind) -> DeviceRules:
    """Of something that no device has."""
    return DeviceRules((replace(BY_MEMORY, sources=(Source(kind, "x", HAMI_DRIVER),)),))


REFUSED = {
    "a class without a mapping": (
        DeviceRules(()), claim(ask()),
        "devices.requests[0] (r0): DeviceClass hami-gpu is not mapped in DRA configuration",
    ),
    "all devices": (ALL_THREE, claim(replace(ask(), mode="All")), "AllocationMode 'All' is not"),
    "an unknown mode": (ALL_THREE, claim(replace(ask(), mode="Some")), "unsupported allocation"),
    "alternatives": (
        ALL_THREE, claim(Alternatives((ask(),))), "FirstAvailable device selection is not",
    ),
    "alternatives by capacity": (
        replace(ALL_THREE, alternatives=True), claim(Alternatives((ask(),))), "not supported for",
    ),
    "no alternatives": (
        DeviceRules((COUNT,), alternatives=True), claim(Alternatives(())), "different resources",
    ),
    "no device": (ALL_THREE, claim(ask(0)), "at least 1"),
    "a negative amount": (ALL_THREE, claim(ask(1, memory=-1)), "negative"),
    "more than any card has": (
        DeviceRules((BY_MEMORY,)), claim(ask(1, memory=81 * GI)),
        "capacity request cannot be satisfied by any matched device's RequestPolicy",
    ),
    "more cards than match": (
        DeviceRules((BY_MEMORY,)), claim(ask(3, BIG)), "2 device(s) match in the cluster but 3",
    ),
    "more devices than match, by number": (
        DeviceRules((COUNT,)), claim(ask(3, BIG)), "insufficient matching devices for CEL selector",
    ),
    "an expression that is none": (DeviceRules((COUNT,)), claim(ask(1, "x y")), "CEL compilation"),
    "an expression without a value": (
        DeviceRules((COUNT,)), claim(ask(1, "device.attributes['d'].x == 1")), "CEL evaluation",
    ),
    "a capacity that no device has": (
        by_unknown(SourceKind.CAPACITY),
        claim(ask()), "no capacity dimension 'x'",
    ),
    "a counter that no device has": (
        by_unknown(SourceKind.COUNTER),
        claim(ask()), "no consumesCounters entry for counter 'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    rules, asked, text = REFUSED[name]
    with pytest.raises(ClaimError) as found:
        charge(asked, CARDS, rules)
    assert text in str(found.value)


def test_the_class_has_to_exist_where_devices_are_looked_at() -> None:
    with pytest.raises(ClaimError, match="DeviceClass hami-gpu does not exist"):
        charge(claim(ask()), Inventory([card(0)]), ALL_THREE)


def test_a_device_that_is_not_shared_is_given_away_whole() -> None:
    alone = Inventory([card(0, shared=False)], [CLASS])
    assert charge(claim(ask(1, memory=GI)), alone, DeviceRules((BY_MEMORY,))) == {
        "gpu-memory": 80 * GI
    }


def test_counters_of_partitions() -> None:
    """The largest partition that may be taken counts, times their number."""
    parts = [
        Device("mig", "p", f"d{n}", "", {"mig/profile": profile}, counters={"memory": q(size)})
        for n, (profile, size) in enumerate([("1g", 10 * GI), ("1g", 10 * GI), ("7g", 80 * GI)])
    ]
    rules = DeviceRules((
        DeviceClassMapping("mem", ("mig",), (Source(SourceKind.COUNTER, "memory", "mig"),)),
    ))  # fmt: skip
    found = Inventory(parts, [DeviceClass("mig")])
    small = DeviceRequest("mig", 2, ("device.attributes['mig'].profile == '1g'",))
    assert charge(claim(small), found, rules) == {"mem": 20 * GI}
    assert charge(claim(DeviceRequest("mig", 1)), found, rules) == {"mem": 80 * GI}


def test_on_the_management_cluster_what_is_asked_for_counts() -> None:
    """Its devices are elsewhere: an amount counts as it stands, a missing one cannot be told."""
    far = Inventory((), (), elsewhere=True)
    asked = claim(ask(2, memory=4 * GI, cores=30))
    assert charge(asked, far, ALL_THREE) == {"cards": 2, "gpu-memory": 8 * GI, "gpu-cores": 60}
    with pytest.raises(ClaimError, match="publishes no devices here"):
        charge(claim(ask(1, memory=GI)), far, ALL_THREE)


def test_a_later_inventory_looks_at_what_is_new_only() -> None:
    """What was found of devices that are still the same objects stands, and nothing else does."""
    one, other = card(0), card(1, 40)
    first = Inventory([one, other], [CLASS])
    rules = DeviceRules((BY_MEMORY,))
    assert charge(claim(ask(1, BIG)), first, rules) == {"gpu-memory": 80 * GI}
    replaced = card(0, 40, attributes=other.attributes)
    second = Inventory([replaced, other, card(2)], [CLASS], before=first)
    assert [device.name for device in second.matching(HAMI_DRIVER, (IS_CARD, BIG))] == [
        "hami-gpu-2"
    ]
    third = Inventory([replaced, other], [CLASS], before=second)
    with pytest.raises(ClaimError, match="0 device"):
        charge(claim(ask(1, BIG)), third, rules)


def test_the_class_created_last_serves_an_extended_resource() -> None:
    classes = [
        DeviceClass("b", (), "x/gpu", "2026-01-01T00:00:00Z"),
        DeviceClass("a", (), "x/gpu", "2026-01-02T00:00:00Z"),
        DeviceClass("c", (), "x/gpu", "2026-01-02T00:00:00Z"),
        DeviceClass("d"),
    ]
    assert Inventory((), classes).extended() == {"x/gpu": "a"}


ROUNDS = [
    (Capacity(q(100)), 7, 7),
    (Capacity(q(100)), None, 100),
    (Capacity(q(100), q(20)), None, 20),
    (Capacity(q(100), None, (q(10), q(50), q(100))), 11, 50),
    (Capacity(q(100), None, (q(10), q(50), q(100))), 50, 50),
    (Capacity(q(100), None, (q(10), q(50), q(100))), 101, None),
    (Capacity(q(100), q(1), (q(10), q(50), q(100))), None, 10),
    (Capacity(q(100), None, (), q(10), q(90), q(8)), 11, 18),
    (Capacity(q(100), None, (), q(10), q(90), q(8)), 90, 90),
    (Capacity(q(100), None, (), q(10), q(91), q(8)), 91, None),
    (Capacity(q(100), None, (), q(10), None, None), 3, 10),
    (Capacity(q(100), None, (), None, q(90), None), 91, None),
    (Capacity(q(100), None, (), q(10), q(90), q(0)), 11, 11),
]


@pytest.mark.parametrize(("capacity", "asked", "expected"), ROUNDS)
def test_rounded(capacity: Capacity, asked: int | None, expected: int | None) -> None:
    assert rounded(capacity, None if asked is None else q(asked)) == expected


AMOUNTS = st.integers(0, 200).map(Fraction)


MAYBE = st.none() | AMOUNTS
VALUES = st.lists(AMOUNTS, max_size=4).map(sorted).map(tuple)
CAPACITIES = st.builds(Capacity, AMOUNTS, MAYBE, VALUES, MAYBE, MAYBE, MAYBE)


@given(CAPACITIES, AMOUNTS, AMOUNTS)
def test_rounding_never_loses_and_keeps_the_order(
    capacity: Capacity, one: Fraction, other: Fraction
) -> None:
    small, large = (rounded(capacity, asked) for asked in sorted((one, other)))
    assert small is None or small >= min(one, other)
    assert large is None or (small is not None and small <= large)
