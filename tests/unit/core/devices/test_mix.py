"""What is usual: the popular shapes, learned at a pace that lets scores be kept."""

from __future__ import annotations

import pytest

from federation.core.devices.fleet.mix import MOST_PODS, MOST_SHAPES, Mix, typical
from federation.core.devices.wants import CardWants, ContainerWants, PodWants
from tests.unit.core.devices.fleets import shape


def test_the_popular_shapes_that_make_up_most_are_usual() -> None:
    mix = Mix.of([shape(mib=1)] * 90 + [shape(mib=2)] * 6 + [shape(mib=3)] * 4)
    found = {one.wants.memory_mib: weight for one, weight in mix.usual if one.wants}
    assert found == pytest.approx({1: 90 / 96, 2: 6 / 96})
    assert len(mix.all) == 3


def test_of_equally_popular_shapes_the_larger_are_usual() -> None:
    shapes = [shape(mib=size, cpu=cpu) for size, cpu in ((5, 9), (5, 1), (7, 1))]
    mix = Mix.of([shape(mib=1)] * 38 + shapes[:1] + shapes[1:2])
    assert [one.cpu_milli for one, _ in mix.usual] == [1000]

    mix = Mix.of([shape(mib=1)] * 18 + shapes)
    assert [one.cpu_milli for one, _ in mix.usual] == [1000, 9, 1]
    assert mix.usual[2][0].wants == shapes[2].wants.containers[0].cards[0]


def test_each_container_with_cards_counts_and_a_pod_without_counts_once() -> None:
    one, two = CardWants("NVIDIA", 1, 5), CardWants("DCU", 2, 7)
    wants = PodWants((ContainerWants("a", cards=(one, two)), ContainerWants("b")))
    several = typical(type(shape())(wants))
    assert [seen.wants for seen in several] == [one, two]
    assert [seen.wants for seen in typical(shape(cards=0))] == [None]


def test_a_mix_changes_each_time_it_has_grown_by_a_quarter() -> None:
    mix = Mix()
    versions = []
    for _ in range(1000):
        mix.learn(shape())
        versions.append(mix.version)
    changes = [n for n in range(1, 1000) if versions[n] != versions[n - 1]]
    assert 10 < len(changes) < 30
    assert changes[0] < 20


def test_a_fixed_mix_learns_nothing() -> None:
    mix = Mix.of([shape(mib=1)])
    for _ in range(100):
        mix.learn(shape())
    assert (mix.version, len(mix.all)) == (0, 1)
    assert Mix().usual == ()


def test_what_is_rare_and_what_is_old_is_forgotten() -> None:
    mix, common, later = Mix(), shape(), shape(mib=1)
    for number in range(MOST_SHAPES * 2):
        mix.learn(shape(mib=number + 2))
        mix.learn(common)
    assert len(mix.all) <= MOST_SHAPES
    assert max(mix.all, key=lambda pair: pair[1])[0].wants == common.wants.containers[0].cards[0]

    for _ in range(MOST_PODS + MOST_PODS // 2):
        mix.learn(later)
    weights = {one.wants.memory_mib: weight for one, weight in mix.all if one.wants}
    assert weights[1] > 0.9
