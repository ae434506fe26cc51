"""Fragments as the published definition has them, host by host and pod by pod."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.devices.fleet.fragmentation import Cards, Fragments
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix, Typical
from federation.core.devices.fleet.strategies.fgd import Fgd
from federation.core.devices.fleet.strategies.fgd_sums import Sums
from federation.core.devices.fleet.strategies.prices import prices_of
from federation.core.devices.fleet.table import Table
from federation.core.devices.fleet.types import Room, Shape
from federation.core.devices.wants import Wishes
from tests.unit.core.devices.fleets import fleet, host, placed, shape

MODELS = ("T4", "A10")
SIZE = 1000

pods = st.builds(
    lambda cards, mib, cpu, models: shape(
        cards, mib if cards else 0, cpu=cpu, wishes=Wishes(use_models=models if cards else ())
    ),
    st.integers(0, 3),
    st.sampled_from([200, 450, 500, 1000]),
    st.sampled_from([1000, 4000, 9000]),
    st.sampled_from([(), (), ("T4",)]),
)
hosts = st.tuples(
    st.sampled_from(MODELS),
    st.integers(0, 10_000),
    st.lists(st.integers(0, SIZE), min_size=1, max_size=4),
)


def fragment(model: str, cpu: int, free: list[int], pod: Shape) -> int:
    """Of one host for one pod."""
    asked = [wants for container in pod.wants.containers for wants in container.cards]
    models = pod.wants.wishes.use_models
    if not asked or (models and model not in models) or cpu < pod.cpu_milli:
        return sum(free)
    fitting = [milli for milli in free if milli >= asked[0].memory_mib]
    return sum(free) - sum(fitting) if len(fitting) >= asked[0].cards else sum(free)


@settings(deadline=None)
@given(st.lists(hosts, min_size=1, max_size=3), st.lists(pods, min_size=1, max_size=12))
def test_usable_is_free_less_expected_fragments(
    many: list[tuple[str, int, list[int]]], mix: list[Shape]
) -> None:
    table = Table(Kinds())
    for number, (model, cpu, free) in enumerate(many):
        used = {n: (1, SIZE - milli, 0) for n, milli in enumerate(free)}
        use = host(f"h{number}", len(free), used, memory_mib=SIZE, model=model)
        table.put(use.host.name, use, Room({"cpu": cpu}))
    view = table.view(np.arange(len(many)))
    usual = tuple((one, 1 / len(mix)) for m in mix for one in _typical(m))
    fragments = Fragments(usual, table.kinds.cards)

    usable = fragments.usable(view, Cards.of(view), view.cpu)
    summed = Sums(usual, table.kinds.cards).fragments(view, view.cpu)

    for got, by_sums, (model, cpu, free) in zip(usable, summed, many, strict=True):
        expected = sum(fragment(model, cpu, free, pod) for pod in mix) / len(mix)
        assert sum(free) - got == pytest.approx(expected)
        assert by_sums == pytest.approx(expected)


def _typical(wanted: Shape) -> list[Typical]:
    return [one for one, _ in Mix.of([wanted]).usual]


def test_a_sharing_pod_goes_where_it_breaks_nothing() -> None:
    """A rest that just takes it, before a whole card that others need."""
    mix = Mix.of([shape(mib=20_480)] * 3 + [shape(cards=1)] * 3)
    made = fleet(host("a"), host("b", used={1: (1, 20_480, 0)}), name="fgd", mix=mix)
    place = placed(made, shape(mib=20_480))
    assert (place.host, place.allocation[0][0].uuid) == ("b", "b-1")


def test_scores_are_whole_levels_below_zero() -> None:
    place = placed(fleet(host("a"), name="fgd", mix=Mix.of([shape()])), shape())
    assert place.score == int(place.score)
    assert -100 <= place.score <= 0


def test_fragments_are_worked_out_once_per_mix() -> None:
    known = Fgd(mix := Mix())
    table = Table(Kinds())
    table.put("a", host("a"), Room({}))
    first = known.fragments(table.kinds)
    assert known.fragments(table.kinds) is first

    for _ in range(40):
        mix.learn(shape())
    assert known.fragments(table.kinds) is not first


class TestPrices:
    """What the mix says: 10 T4 and 30 A10; of the demand a quarter can go to T4 only."""

    @staticmethod
    def kinds() -> Kinds:
        table = Table(Kinds())
        table.put("t", host("t", 10, memory_mib=SIZE, model="T4"), Room({}))
        table.put("a", host("a", 30, memory_mib=SIZE, model="A10"), Room({}))
        return table.kinds

    def test_scarcity(self) -> None:
        bound = shape(cpu=2000, wishes=Wishes(use_models=("T4",)))
        mix = Mix.of([bound, shape(cpu=2000), shape(cards=2, cpu=4000), shape(cards=0)])
        prices = prices_of(mix.all, self.kinds())

        assert prices.scarcity == pytest.approx([0.25 / 0.25, 0, 0])
        assert prices.milli_per_cpu == pytest.approx(4 * 1000 / 8000)
        assert prices.sliver == 0

    def test_a_size_that_few_cards_have_is_scarce_too(self) -> None:
        table = Table(Kinds())
        table.put("s", host("s", 3, memory_mib=SIZE), Room({}))
        table.put("l", host("l", 1, memory_mib=2 * SIZE), Room({}))
        prices = prices_of(Mix.of([shape(mib=1500)]).all, table.kinds)
        assert prices.scarcity == pytest.approx([0, 4, 0])

    def test_slivers_are_below_what_one_sharing_pod_in_twenty_asks(self) -> None:
        mix = Mix.of([shape(mib=100)] * 2 + [shape(mib=250)] * 3 + [shape(mib=600)] * 45)
        assert prices_of(mix.all, self.kinds()).sliver == pytest.approx(250)

    def test_nothing_is_priced_without_a_mix(self) -> None:
        prices = prices_of(Mix().all, self.kinds())
        assert prices.milli_per_cpu == float("inf")
        assert not prices.scarcity.any()
