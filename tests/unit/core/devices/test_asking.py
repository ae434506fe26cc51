"""What containers ask of cards: the vectors of HAMi's webhook and parser, and where we refuse."""

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.asking.asking import ContainerAsk, WantsError, pod_wants
from federation.core.devices.wants import CardWants, Role
from federation.core.devices.wire.vendor_table import NVIDIA, VENDORS
from federation.core.devices.wire.vendors import Vendors

P = "nvidia.com/"


def one(limits, requests=(), vendors=VENDORS):
    """The wants of one container; names without a domain are NVIDIA's."""
    full = [
        {name if "/" in name else P + name: text for name, text in dict(given).items()}
        for given in (limits, requests)
    ]
    return pod_wants([ContainerAsk("c", Role.APP, *full)], {}, vendors).containers[0].cards


def numbers(cards):
    """Cards, MiB, percent, cores."""
    (want,) = cards
    return want.cards, want.memory_mib, want.percent, want.cores


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"gpu": "1"}, (1, 0, 100, 100)),
        ({"gpu": "2"}, (2, 0, 100, 100)),
        ({"gpumem": "4000"}, (1, 4000, 0, 0)),
        ({"gpu": "2", "gpumem-percentage": "50"}, (2, 0, 50, 0)),
        ({"gpumem-percentage": "50"}, (1, 0, 50, 0)),
        ({"gpu": "1", "gpumem-percentage": "100"}, (1, 0, 100, 100)),
        ({"gpumem-percentage": "100"}, (1, 0, 100, 100)),
        ({"gpu": "1", "gpumem": "4000", "gpumem-percentage": "50"}, (1, 4000, 0, 0)),
        ({"gpu": "1", "gpumem": "4000", "gpumem-percentage": "100"}, (1, 4000, 0, 100)),  # d24
        ({"gpu": "1", "gpucores": "150"}, (1, 0, 100, 100)),
        ({"gpucores": "30"}, (1, 0, 100, 30)),
        ({"gpu": "1", "gpucores": "30"}, (1, 0, 100, 30)),
        ({"gpu": "1", "gpucores": "0"}, (1, 0, 100, 0)),
        ({"gpu": "2", "gpumem": "3000", "gpucores": "30"}, (2, 3000, 0, 30)),
        ({"gpu": "1", "gpumem": "5k"}, (1, 5000, 0, 0)),
        ({"gpu": "1", "gpumem": "2e4"}, (1, 20000, 0, 0)),
        ({"gpu": "1", "gpumem": "4Ki"}, (1, 4096, 0, 0)),
        ({"gpu": "1", "gpumem": "20Gi"}, (1, 20480, 0, 0)),
        ({"gpu": "1", "gpumem": "0.5Gi"}, (1, 512, 0, 0)),
        ({"gpu": "1", "gpumem": "3G"}, (1, 2862, 0, 0)),
        ({"gpu": "1", "gpumem": "1000.5Mi"}, (1, 1001, 0, 0)),
        ({"gpu": "1", "gpu-memory": "20Gi", "gpu-core-percent": "25"}, (1, 20480, 0, 25)),
        ({"gpu": "1", "gpumem": "20480", "gpu-memory": "20Gi"}, (1, 20480, 0, 0)),
        ({"gpu": "1", "gpumem": "2147483647"}, (1, 2147483647, 0, 0)),
        (
            {
                "volcano.sh/vgpu-number": "2",
                "volcano.sh/vgpu-memory": "3000",
                "volcano.sh/vgpu-cores": "10",
            },
            (2, 3000, 0, 10),
        ),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "7"}, (1, 0, 7, 0)),
    ],
)
def test_amounts(limits, wanted):
    assert numbers(one(limits)) == wanted


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"gpu": "1", "gpumem-percentage": "0"}, (1, 0, 100, 100)),  # d08
        ({"gpumem-percentage": "0"}, (1, 0, 100, 100)),
        ({"gpu": "1", "gpumem": "0"}, (1, 0, 100, 100)),
        ({"gpu": "1", "gpumem": "4000", "gpumem-percentage": "0"}, (1, 4000, 0, 0)),
        ({"gpu": "1", "gpumem": "0", "gpumem-percentage": "30"}, (1, 0, 30, 0)),
    ],
)
def test_a_memory_of_0_is_as_if_it_were_not_given(limits, wanted):
    assert numbers(one(limits)) == wanted


@pytest.mark.parametrize("limits", [{}, {"gpu": "0"}, {"gpu": "0", "gpumem": "4000"}, {"x": "1"}])
def test_no_request(limits):
    assert one(limits) == ()


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"gpumem-percentage": "101"}, "write a percentage from 1 to 100"),
        ({"gpumem-percentage": "4294967297"}, "more than 100"),
        ({"gpumem-percentage": "-1"}, "negative"),
        ({"gpumem-percentage": "33.3"}, "not a whole number"),
        ({"gpu": "1", "gpumem": "1.5"}, "not a whole number"),
        ({"gpu": "1", "gpumem": "1500m"}, "not clear"),
        ({"gpu": "1", "gpumem": "500M"}, "not clear"),
        ({"gpu": "1", "gpumem": "-5"}, "negative"),
        ({"gpu": "1", "gpumem": "-5Gi"}, "negative"),
        ({"gpu": "1", "gpumem": "2147483648"}, "more than"),
        ({"gpu": "1", "gpumem": "3Pi"}, "more than can be counted"),
        ({"gpu": "1", "gpumem": "1e999999999"}, "beyond what can be counted"),
        ({"gpu": "1", "gpumem": "9" * 5000}, "no amount"),
        ({"gpu": "1", "gpumem": "lots"}, "not a quantity"),
        ({"gpu": "1", "gpumem": ""}, "not a quantity"),
        ({"gpu": "0.5"}, "not a whole number"),
        ({"gpu": "-1"}, "negative"),
        ({"gpu": "4294967297"}, "more than"),
        ({"gpu": "1", "gpucores": "12.5"}, "not a whole number"),
        ({"gpu": "1", "gpucores": "-1"}, "negative"),
        ({"mig-2g.10gb": "0.5"}, "not a whole number"),
        ({"gpu": "1", "gpumem": "1000", "gpu-memory": "2000"}, "keep one of them"),
        ({"gpu": "1", "volcano.sh/vgpu-number": "2"}, "keep one of them"),
        ({"gpu": "1", "gpucores": "10", "gpu-core-percent": "20"}, "keep one of them"),
    ],
)
def test_refused_with_the_container_and_what_to_write(limits, said):
    with pytest.raises(WantsError, match=said) as caught:
        one(limits)
    assert caught.value.container == "c"
    assert "container c: " in str(caught.value)


def test_limits_come_before_requests_for_every_name():
    asked = {"gpumem": "3000", "gpucores": "40"}
    assert numbers(one({"gpu": "1"}, asked)) == (1, 3000, 0, 40)
    assert numbers(one({"gpu": "1", "gpumem": "1000"}, asked)) == (1, 1000, 0, 40)
    with pytest.raises(WantsError, match="keep one"):
        one({"gpu": "1", "gpu-memory": "1000"}, asked)


def configured(**change):
    return Vendors([replace(NVIDIA, **change)])


@pytest.mark.parametrize(
    ("change", "limits", "wanted"),
    [
        ({"mib_per_unit": 10}, {"gpu": "1", "gpumem": "300"}, (1, 3000, 0, 0)),
        ({"mib_per_unit": 10}, {"gpu": "1", "gpumem": "300Mi"}, (1, 300, 0, 0)),
        ({"mib_per_unit": 10}, {"gpu": "1", "gpumem": "301Mi"}, (1, 310, 0, 0)),
        ({"default_memory": 5000}, {"gpu": "1"}, (1, 5000, 0, 100)),
        ({"default_memory": 5000}, {"gpucores": "20"}, (1, 5000, 0, 20)),
        ({"default_memory": 5000}, {"gpu": "1", "gpumem-percentage": "20"}, (1, 0, 20, 0)),
        ({"default_cores": 15}, {"gpu": "1", "gpumem": "100"}, (1, 100, 0, 15)),
        ({"default_cores": 15}, {"gpu": "1"}, (1, 0, 100, 100)),
        ({"default_cards": 2}, {"gpumem": "100"}, (2, 100, 0, 0)),
    ],
)
def test_configured_defaults(change, limits, wanted):
    assert numbers(one(limits, vendors=configured(**change))) == wanted


def test_a_factor_lowers_the_largest_memory():
    vendors = configured(mib_per_unit=256)
    assert numbers(one({"gpumem": "8388607"}, vendors=vendors))[1] == 8388607 * 256
    with pytest.raises(WantsError, match="more than"):
        one({"gpumem": "8388608"}, vendors=vendors)


EXCLUSIVE = [
    ({"n": "1"}, 100),
    ({"n": "1", "c": "20"}, 20),
    ({"n": "1", "m": "100"}, 0),
    ({"n": "1", "p": "99"}, 0),
    ({"n": "1", "p": "100"}, 100),
    ({"n": "1", "p": "100", "c": "1"}, 1),
    ({"n": "1", "m": "100", "p": "100"}, 100),
    ({"n": "1", "m": "100", "p": "50"}, 0),
]


@pytest.mark.parametrize(("limits", "cores"), EXCLUSIVE)
def test_exclusive_compute_under_custom_names(limits, cores):
    vendors = configured(count="x/n", memory="x/m", percent="x/p", cores="x/c", aliases={})
    asked = {f"x/{name}": text for name, text in limits.items()}
    assert numbers(one(asked, vendors=vendors))[3] == cores
    assert one({"gpu": "1"}, vendors=vendors) == ()


def test_instances_by_the_name_of_their_profile():
    assert one({"mig-2g.10gb": "2", "mig-1g.5gb.me": "1", "mig-7g.40gb": "0"}) == (
        CardWants("NVIDIA", 1, profile="1g.5gb+me"),
        CardWants("NVIDIA", 2, profile="2g.10gb"),
    )


def test_containers_keep_their_order_and_role():
    wants = pod_wants(
        [
            ContainerAsk("setup", Role.INIT),
            ContainerAsk("proxy", Role.SIDECAR, {P + "gpumem": "100"}),
            ContainerAsk("main", Role.APP, {P + "gpu": "2"}),
            ContainerAsk("log"),
        ],
        {},
    )
    assert [(c.name, c.role, len(c.cards)) for c in wants.containers] == [
        ("setup", "init", 0),
        ("proxy", "sidecar", 1),
        ("main", "app", 1),
        ("log", "app", 0),
    ]
    assert wants


def test_a_pod_without_containers_or_requests_wants_nothing():
    assert not pod_wants([], {})
    assert not pod_wants([ContainerAsk("c", limits={"cpu": "1"})], {"nvidia.com/numa-bind": "?"})


NAMES = st.sampled_from([*(name for name, _ in NVIDIA.names()), "nvidia.com/mig-1g.5gb"])
TEXTS = st.one_of(
    st.integers(-5, 5000).map(str),
    st.builds(lambda n, s: f"{n}{s}", st.integers(0, 10**6), st.sampled_from(["Gi", "k", "Mi"])),
    st.text(string.printable, max_size=12),
    st.text(max_size=6),
)
LISTS = st.dictionaries(NAMES, TEXTS, max_size=5)


@given(LISTS, LISTS)
def test_never_silently_nothing(limits, requests):
    """Whatever is written: an error that names the container, or amounts of which none is 0."""
    ask = ContainerAsk("c", Role.APP, limits, requests)
    try:
        wants = pod_wants([ask], {})
    except WantsError:
        return
    for cards in wants.containers[0].cards:
        assert cards.cards > 0
        assert cards.profile or (cards.memory_mib > 0) != (cards.percent > 0)
        assert 0 <= cards.percent <= 100
        assert 0 <= cards.cores <= 100
    if ask.texts and not ask.texts.keys() & {*COUNTS, "nvidia.com/mig-1g.5gb"}:
        assert wants, "a share is asked for, of one card by default"


COUNTS = ("nvidia.com/gpu", "volcano.sh/vgpu-number")
