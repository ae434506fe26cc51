"""Annotations that choose cards: followed, or refused with what may be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.asking.asking import ContainerAsk, WantsError, pod_wants
from federation.core.devices.asking.wishes import WishError, read_wishes
from federation.core.devices.wants import Wishes
from federation.core.devices.wire.vendors import Vendor

ASK = [ContainerAsk("c", limits={"nvidia.com/gpu": "1"})]


def wishes(**annotations):
    given = {KEYS[name]: text for name, text in annotations.items()}
    return pod_wants(ASK, given).wishes


KEYS = {
    "use": "nvidia.com/use-gputype",
    "nouse": "nvidia.com/nouse-gputype",
    "uuid": "nvidia.com/use-gpuuuid",
    "nouuid": "nvidia.com/nouse-gpuuuid",
    "numa": "nvidia.com/numa-bind",
    "mode": "nvidia.com/vgpu-mode",
    "node": "hami.io/node-scheduler-policy",
    "gpu": "hami.io/gpu-scheduler-policy",
    "weights": "hami.io/device-scoring-weights",
}


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, Wishes()),
        ({"use": " A100 ,, t4,", "nouse": "V100"}, Wishes(("A100", "t4"), ("V100",))),
        ({"use": "", "nouse": " , "}, Wishes()),
        ({"uuid": "GPU-1, GPU-2"}, Wishes(use_uuids=frozenset({"GPU-1", "GPU-2"}))),
        ({"uuid": " ,"}, Wishes()),
        ({"nouuid": "GPU-1"}, Wishes(avoid_uuids=frozenset({"GPU-1"}))),
        ({"numa": "true"}, Wishes(numa_bind=True)),
        ({"numa": "1"}, Wishes(numa_bind=True)),
        ({"numa": "T"}, Wishes(numa_bind=True)),
        ({"numa": "false"}, Wishes()),
        ({"numa": "0"}, Wishes()),
        ({"mode": "mig"}, Wishes(modes=("mig",))),
        ({"mode": "mig,hami-core"}, Wishes(modes=("mig", "hami-core"))),
        ({"node": "binpack"}, Wishes(node_policy="binpack")),
        ({"gpu": "mutex,binpack"}, Wishes(policy=("mutex", "binpack"))),
        ({"gpu": "topology-aware"}, Wishes(policy=("topology-aware",))),
        ({"gpu": ""}, Wishes()),
        ({"weights": "slot=2,core=0,memory=1"}, Wishes(weights=(2, 0, 1))),
        ({"weights": " memory = 3, slot=1,core=1 "}, Wishes(weights=(1, 1, 3))),
    ],
)
def test_followed(annotations, wanted):
    assert wishes(**annotations) == wanted


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu": "bin-pack"},  # d20
        {"gpu": "Binpack"},
        {"gpu": "binpack,binpack"},
        {"node": "mutex"},
        {"node": "binpack,spread"},
        {"numa": "yes"},
        {"mode": "shared"},
        {"weights": "slot=1,core=1"},  # d20
        {"weights": "slot=1,core=1,memory=1,slot=2"},
        {"weights": "slot=0,core=0,memory=0"},
        {"weights": "slot=-1,core=1,memory=1"},
        {"weights": "slot=1.5,core=1,memory=1"},
        {"weights": "slot=,core=1,memory=1"},
        {"weights": "slot=1;core=1;memory=1"},
        {"weights": "slot=1,core=1,mem=1"},
        {"weights": "slot=\u0661,core=1,memory=1"},
    ],
)
def test_refused_with_the_annotation(annotations):
    (name,) = annotations
    with pytest.raises(WantsError, match=f"annotation {KEYS[name]}") as caught:
        wishes(**annotations)
    assert caught.value.container == ""


def test_lists_of_one_vendor_do_not_speak_for_another():
    a, b = Vendor("A", "a/n", use_uuids="a/use"), Vendor("B", "b/n", use_uuids="b/use")
    both = {"a/use": "1", "b/use": "2"}
    assert read_wishes(both, [a, b]).use_uuids == {"1", "2"}
    assert read_wishes(both, [a]).use_uuids == {"1"}
    with pytest.raises(WishError, match=r"cards of B too: choose those as well \(b/use\)"):
        read_wishes({"a/use": "1"}, [a, b])
    with pytest.raises(WishError, match="use two pods"):
        read_wishes({"a/use": "1"}, [a, Vendor("C", "c/n")])


@given(st.dictionaries(st.sampled_from(sorted(KEYS.values())), st.text(max_size=30)))
def test_hostile_text_is_refused_as_such(annotations):
    try:
        found = pod_wants(ASK, annotations).wishes
    except WantsError:
        return
    assert any(found.weights)
    assert found.use_uuids is None or all(found.use_uuids)
