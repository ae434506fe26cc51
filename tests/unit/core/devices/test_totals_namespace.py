"""Quota of a namespace for cards: what is held in all against the tightest limit."""

import pytest

from federation.core.devices.cards import Amount
from federation.core.devices.totals_namespace import card_limits, exceeded, spent

MEMORY = "limits.nvidia.com/gpumem"


def allowed(hard, held, asked):
    """Whether a pod with this charge on cards may join what is held."""
    limits = card_limits([("q", hard)])
    return not exceeded(limits, spent(_cards(held)), spent(_cards(asked)))


def _cards(amounts, vendor="NVIDIA"):
    return [(vendor, Amount(*amount)) for amount in amounts]


def test_two_cards_count_twice():
    limit = {MEMORY: "4096"}
    assert allowed(limit, [], [(1, 2048, 0), (1, 2048, 0)])
    assert not allowed(limit, [(1, 2048, 0), (1, 2048, 0)], [(1, 1, 0)])


def test_a_whole_card_is_denied_before_it_is_placed():
    assert not allowed({MEMORY: "25600"}, [], [(1, 40960, 100)])


@pytest.mark.parametrize("key", ["limits.nvidia.com/", "requests.nvidia.com/"])
@pytest.mark.parametrize(
    ("name", "most", "fits"),
    [
        ("gpumem", "3000", True),
        ("gpumem", "2999", False),
        ("gpumem", "3Gi", True),
        ("gpumem", "0", False),
        ("gpu-memory", "2999", False),
        ("total-gpumem", "2999", False),
        ("gpucores", "30", True),
        ("gpucores", "29", False),
        ("total-gpucores", "29", False),
        ("gpu", "1", True),
        ("gpu", "0", False),
    ],
)
def test_limits(key, name, most, fits):
    assert allowed({key + name: most}, [], [(1, 3000, 30)]) is fits


def test_absent_is_unlimited_and_other_vendors_are_not_touched():
    assert allowed({}, [], [(1, 10**6, 100)])
    limits = card_limits([("q", {MEMORY: "0"})])
    assert not exceeded(limits, {}, spent(_cards([(1, 5000, 0)], "DCU")))


def test_an_exhausted_quantity_does_not_block_those_who_ask_for_none_of_it():
    limits = {"limits.nvidia.com/gpucores": "50"}
    assert allowed(limits, [(1, 10, 60)], [(1, 3000, 0)])


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_objects_the_tighter_counts_in_any_order(order):
    quotas = [("loose", {MEMORY: "9000"}), ("tight", {"requests.nvidia.com/gpumem": "5000"})]
    limits = card_limits(quotas[::order])
    assert exceeded(limits, {}, spent(_cards([(1, 5001, 0)]))) == (
        "ResourceQuota tight limits requests.nvidia.com/gpumem to 5000 MiB: 0 are held,"
        " 5001 more are asked for"
    )
    assert not exceeded(limits, {}, spent(_cards([(1, 5000, 0)])))


def test_units_of_a_vendor_apply_to_limits():
    limits = card_limits([("q", {"limits.cambricon.com/mlu.smlu.vmemory": "10"})])
    assert not exceeded(limits, {}, spent(_cards([(1, 2560, 0)], "MLU")))
    assert exceeded(limits, {}, spent(_cards([(1, 2561, 0)], "MLU")))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("limits.nvidia.com/gpumemory", "did you mean limits.nvidia.com/gpu-memory?"),
        ("nvidia.com/gpumem", "did you mean limits.nvidia.com/gpumem?"),
        ("limits.nvidia.com/gpumem-percentage", "limits no cards"),
    ],
)
def test_unknown_keys_are_told(key, said):
    (warning,) = card_limits([("q", {key: "1"})]).warnings
    assert said in warning
    assert key in warning


def test_keys_that_are_not_about_cards_are_nobodys_business():
    found = card_limits([("q", {"limits.cpu": "1", "requests.example.com/x": "1", "pods": "2"})])
    assert (dict(found.limits), found.warnings) == ({}, ())


def test_what_cannot_be_read_lets_nothing_in():
    limits = card_limits([("q", {MEMORY: "500m"})])
    assert exceeded(limits, {}, spent(_cards([(1, 1, 0)])))
    assert "nothing is let in" in limits.warnings[0]
