"""What pods hold of cards in all: vectors of the specification and the pitfalls of Kueue's sums."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.asking.asking import ContainerAsk, pod_wants
from federation.core.devices.cards import INSTANCE, MIG, Allocation, Amount, Card, Grant, MigProfile
from federation.core.devices.ledger.charge import charge
from federation.core.devices.quota.quota import UnknownCard, standard, total_name
from federation.core.devices.quota.rules import TransformationError, card_quotas, plain
from federation.core.devices.quota.totals import Held, held, like, smallest
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role
from federation.core.devices.wire.vendor_table import NVIDIA, VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.policies import ResourceRules, Transformation, TransformationStrategy

A100 = Card("GPU-1", "NVIDIA", "A100", 40960)
A100_MIG = Card(
    "GPU-2",
    "NVIDIA",
    "A100",
    40960,
    mode=MIG,
    profiles=(
        MigProfile("1g.5gb", 4864, 15, 1, ((0, 1),)),
        MigProfile("2g.10gb", 9984, 29, 2, ((0, 2),)),
        MigProfile("7g.40gb", 40448, 100, 8, ((0, 8),)),
    ),
)
MEMORY, CORES = "nvidia.com/total-gpumem", "nvidia.com/total-gpucores"
QUOTAS = standard(VENDORS)


def ask(gpu=None, mem=None, cores=None, pct=None, role=Role.APP):
    """A container with NVIDIA's limits."""
    limits = {"gpu": gpu, "gpumem": mem, "gpucores": cores, "gpumem-percentage": pct}
    texts = {
        f"nvidia.com/{name}": str(value) for name, value in limits.items() if value is not None
    }
    return ContainerAsk(str(role), role, texts)


def totals(*asks, card=A100, quotas=QUOTAS, names=(MEMORY, CORES)):
    wants = pod_wants(asks, {})
    cards = {} if card is None else {card.vendor: card}
    return tuple(quotas.amounts(wants, names, cards)[name] for name in names)


@pytest.mark.parametrize(
    ("asks", "wanted"),
    [
        ([ask(2, 1024, 30)], (2048, 60)),
        ([ask(1, 1000), ask(1, 1000)], (2000, 0)),  # pitfall a: Kueue charges 4000
        ([ask(2, 1000), ask(1, 4000)], (6000, 0)),  # pitfall b: 15000
        ([ask(4, 100, role=Role.INIT), ask(1, 8000)], (8000, 0)),  # pitfall c: 32000
        ([ask(4, 3000, role=Role.INIT), ask(1, 8000)], (12000, 0)),
        ([ask(2, pct=25)], (20480, 0)),  # pitfall d
        ([ask(1, pct=33)], (13516, 0)),
        ([ask(1)], (40960, 100)),  # pitfalls e and f
        ([ask(3)], (122880, 300)),
        ([ask(mem=4000)], (4000, 0)),
        ([ask(cores=30)], (40960, 30)),
        ([ask(1, pct=0)], (40960, 100)),
        (
            [ask(mem=20480, role=Role.INIT), ask(mem=4096, role=Role.SIDECAR), ask(mem=10240)],
            (20480, 0),
        ),
        (
            [ask(mem=4096, role=Role.SIDECAR), ask(mem=20480, role=Role.INIT), ask(mem=10240)],
            (24576, 0),
        ),
        ([ask(mem=10, role=Role.INIT), ask(mem=20, role=Role.INIT)], (20, 0)),
        ([ContainerAsk("plain"), ask(mem=10)], (10, 0)),
    ],
)
def test_totals_of_one_pod(asks, wanted):
    assert totals(*asks) == wanted


def test_a_factor_of_the_configuration_is_in_the_total():
    """Pitfall g."""
    vendors = Vendors([replace(NVIDIA, mib_per_unit=10)])
    wants = pod_wants([ask(2, 300)], {}, vendors)
    amounts = standard(vendors).amounts(wants, [MEMORY, "nvidia.com/gpumem"], {})
    assert amounts == {MEMORY: 6000, "nvidia.com/gpumem": 600}


@pytest.mark.parametrize(
    ("asks", "wanted"),
    [
        ([ask(1, 5120)], (9984, 29)),  # pitfall h: the name says 5 GB, the profile has 4864
        ([ask(1, 4864)], (4864, 15)),
        ([ask(2, 4000)], (9728, 30)),
        ([ask(1, pct=25)], (40448, 100)),
        ([ask(1)], (40448, 100)),
        ([ask(1, 40900)], (40900, 0)),
        ([ContainerAsk("c", limits={"nvidia.com/mig-2g.10gb": "3"})], (29952, 87)),
    ],
)
def test_mig_is_charged_as_the_profile_that_will_be_used(asks, wanted):
    assert totals(*asks, card=A100_MIG) == wanted


def test_instances_whose_size_nobody_tells_are_as_large_as_their_name():
    asked = ContainerAsk("c", limits={"nvidia.com/mig-2g.10gb": "1"})
    assert totals(asked, card=None) == (10240, 29)
    assert held(pod_wants([asked], {}).containers, "NVIDIA").cards == 0


def test_what_depends_on_a_card_is_not_0_where_none_is_known():
    for asks in ([ask(1)], [ask(1, pct=50)], [ask(1, 1000), ask(1)], [ask(1, role=Role.INIT)]):
        with pytest.raises(UnknownCard, match="NVIDIA"):
            totals(*asks, card=None)
    assert totals(ask(2, 1000, 10), card=None) == (2000, 20)
    with pytest.raises(UnknownCard):
        totals(ask(1, 1000), card=None, names=["nvidia.com/gpumem-percentage"])


def test_percent_of_memory():
    name = "nvidia.com/gpumem-percentage"
    assert totals(ask(2, pct=25), card=None, names=[name]) == (50,)
    assert totals(ask(2), card=None, names=[name]) == (200,)
    assert totals(ask(1, 20481), names=[name]) == (51,)


def test_names_of_other_vendors():
    wants = pod_wants(
        [
            ContainerAsk(
                "c", limits={"cambricon.com/vmlu": "2", "cambricon.com/mlu.smlu.vmemory": "10"}
            )
        ],
        {},
    )
    names = ["cambricon.com/mlu.smlu.vmemory", "cambricon.com/total-mlu.smlu.vmemory"]
    assert QUOTAS.amounts(wants, names, {}) == {names[0]: 20, names[1]: 5120}
    assert QUOTAS.names(wants, [*names, MEMORY, "cpu"]) == set(names)


def rules(*transformations, excluded=()):
    return ResourceRules(tuple(excluded), transformations)


REPLACE = TransformationStrategy.REPLACE


def mapping(name, output, factor=1, strategy=REPLACE, by="nvidia.com/gpu"):
    return Transformation(f"nvidia.com/{name}", strategy, by, {output: Fraction(factor)})


OFFICIAL = (mapping("gpumem", MEMORY), mapping("gpucores", CORES))


def test_the_official_mapping_is_reckoned_per_container():
    quotas = card_quotas(rules(*OFFICIAL))
    assert totals(ask(2, 1024, 30), quotas=quotas) == (2048, 60)
    assert totals(ask(2, 1000, 10), ask(1, 4000, 5), quotas=quotas) == (6000, 25)
    assert totals(ask(1), quotas=quotas) == (40960, 100)
    assert "nvidia.com/gpumem" not in quotas.measures
    assert plain(rules(*OFFICIAL)) == (
        Transformation("nvidia.com/gpumem", REPLACE),
        Transformation("nvidia.com/gpucores", REPLACE),
    )


def test_other_outputs_and_factors():
    credits = mapping("gpumem", "example.com/credits", Fraction(1, 1024), by="")
    more = mapping("gpucores", "example.com/credits", Fraction(1, 100))
    quotas = card_quotas(rules(credits, more))
    assert totals(ask(2, 1024, 50), quotas=quotas, names=["example.com/credits"]) == (3,)
    assert totals(ask(1, 1000), quotas=quotas, names=["example.com/credits"]) == (1,)


def test_the_product_may_be_written_the_other_way_round():
    swapped = Transformation(
        "nvidia.com/gpu",
        TransformationStrategy.RETAIN,
        "nvidia.com/gpumem",
        {"x/m": Fraction(1)},
    )
    assert totals(ask(2, 100), quotas=card_quotas(rules(swapped)), names=["x/m"]) == (200,)


def test_aliases_that_are_mapped_alike_count_once():
    both = (mapping("gpumem", MEMORY), mapping("gpu-memory", MEMORY))
    assert totals(ask(2, 100), quotas=card_quotas(rules(*both)), names=[MEMORY]) == (200,)


def test_a_retained_input_counts_beside_its_outputs():
    kept = card_quotas(rules(mapping("gpumem", "x/m", strategy=TransformationStrategy.RETAIN)))
    assert totals(ask(2, 100), quotas=kept, names=["x/m", "nvidia.com/gpumem"]) == (200, 200)


def test_negative_factors_end_at_0():
    less = card_quotas(rules(mapping("gpumem", "x/m", -1)))
    assert totals(ask(2, 100), quotas=less, names=["x/m"]) == (0,)


def test_excluded_resources_have_no_totals():
    quotas = card_quotas(rules(*OFFICIAL, excluded=["nvidia.com/gpum"]))
    assert MEMORY not in quotas.measures
    assert CORES in quotas.measures


@pytest.mark.parametrize(
    "rule",
    [
        mapping("gpumem", "x/m", by="cpu"),
        mapping("gpumem", "x/m", by="nvidia.com/gpucores"),
        mapping("gpumem", "x/m", by="hygon.com/dcunum"),
        Transformation("cpu", REPLACE, "nvidia.com/gpumem", {"x/m": Fraction(1)}),
    ],
)
def test_products_that_mean_nothing_are_refused(rule):
    with pytest.raises(TransformationError, match="number of cards"):
        card_quotas(rules(rule))


def test_other_transformations_stay_as_they_are():
    other = Transformation("nvidia.com/gpu", REPLACE, "", {"x/credits": Fraction(10)})
    assert plain(rules(other)) == (other,)
    assert card_quotas(rules(other)) == QUOTAS


def test_the_smallest_card_of_each_vendor():
    small, dcu = Card("b", "NVIDIA", "T4", 15360), Card("c", "DCU", "K100", 65520)
    instance = Card("d", "NVIDIA", "1g", 4864, mode=INSTANCE)
    assert smallest([A100, small, dcu, instance]) == {"NVIDIA": small, "DCU": dcu}
    assert like(small) == like(Card("x", "NVIDIA", "other", 15360, index=3, numa=1))


def test_total_names():
    assert total_name("nvidia.com/gpumem") == MEMORY


ROLES = st.sampled_from(list(Role))
CONTAINERS = st.lists(
    st.tuples(ROLES, st.integers(0, 3), st.integers(1, 5000), st.integers(0, 100)), max_size=5
)


@given(CONTAINERS)
def test_never_more_than_the_cards_are_charged_and_equal_on_the_same_ones(containers):
    """If every container gets the first cards of a host, the ledger's charge of these is what quota
    was asked for; on other cards an init container may hold some that no app uses later.
    """
    order = sorted(containers, key=lambda c: c[0] is Role.APP)
    wants = PodWants(
        tuple(
            ContainerWants(str(i), role, (CardWants("NVIDIA", n, mem, 0, cores),) if n else ())
            for i, (role, n, mem, cores) in enumerate(order)
        )
    )
    roles = [role for role, *_ in order]
    apart: Allocation = tuple(
        tuple(Grant(f"{i}-{k}", "NVIDIA", mem, cores) for k in range(n))
        for i, (_, n, mem, cores) in enumerate(order)
    )
    one = tuple(
        (Grant("0", "NVIDIA", n * mem, n * cores),) if n else () for _, n, mem, cores in order
    )
    quota = held(wants.containers, "NVIDIA")
    charged = charge(roles, one).get("0", Amount())
    assert (charged.memory_mib, charged.cores) == (quota.memory_mib, quota.cores)
    spread = charge(roles, apart).values()
    assert sum(amount.memory_mib for amount in spread) >= (quota.memory_mib or 0)
    assert isinstance(quota, Held)
