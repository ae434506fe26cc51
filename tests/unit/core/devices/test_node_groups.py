"""Files of node groups that cut cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.inventory.node_groups import NodeGroup, decode, group_of
from federation.core.devices.wire.undecodable import UndecodableError
from tests.unit.core.build import FEW

SEED = Path(__file__).parents[5] / "shared" / "seed-manifests" / "60-vgpu-node-groups.yaml"


def groups(**fields: Any) -> dict[str, Any]:
    """A file with one group; `_` stands for the prefix of NVIDIA."""
    group = {"name": "g", "nodeSelector": {"a": "b"}}
    named = {key.replace("_", "nvidia.com/", 1): value for key, value in fields.items()}
    return {"nodeGroups": [group | named]}


@pytest.mark.parametrize(
    ("fields", "slices", "memory", "cores"),
    [
        ({"_gpu": "4", "_gpu-memory": "20000Mi"}, 4, 20000, 100),
        ({"_gpu": 2, "_gpumem": 40000, "_gpucores": "50"}, 2, 40000, 50),
        ({"_gpu": "8", "_gpu-memory": "10Gi", "_gpumem": "10240"}, 8, 10240, 100),
        ({"_gpu": "8"}, 8, 0, 100),
        ({"_gpumem": "10Gi"}, 0, 10240, 100),
        ({}, 0, 0, 100),
    ],
    ids=["4 of 20 GB", "2 of 40 GB", "8 of 10 GB", "even parts", "what fits", "dynamic"],
)
def test_read(fields: dict[str, Any], slices: int, memory: int, cores: int) -> None:
    """Under all names of requests, in their units."""
    (group,) = decode(groups(**fields))
    assert group == NodeGroup("g", {"a": "b"}, "NVIDIA", slices, memory, cores)


def test_other_vendors() -> None:
    """In their units."""
    item = {"name": "m", "cambricon.com/vmlu": 4, "cambricon.com/mlu.smlu.vmemory": 20}
    assert decode({"nodeGroups": [item]}) == (NodeGroup("m", {}, "MLU", 4, 5120),)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"nodeGroups": {}}, "nodeGroups is an object"),
        ({"nodeGroups": ["g"]}, "entry 0 of nodeGroups"),
        ({"nodeGroups": [{}]}, "node group 0 has no name"),
        ({"nodeGroups": [{"name": "g"}, {"name": "g"}]}, "two node groups have the name 'g'"),
        (groups(_gpu="many"), "node group 'g': 'many'"),
        (groups(_gpu="-1"), "negative"),
        (groups(_gpu=True), "'' is not a quantity"),
        (groups(_gpu="1000"), "1000 slices of a card are more than 256"),
        (groups(_gpu="2", _gpumem="1", **{"_gpu-memory": "2"}), "another name for the same"),
        (groups(_gpu="2", _gpucores="0"), "0 % of compute"),
        (groups(_gpu="2", _gpucores="101"), "101 % of compute"),
        (groups(**{"_gpumem-percentage": "25", "_gpu": 4}), "not as a percentage"),
        (groups(_gpux="2"), "'nvidia.com/gpux' is a resource of no card"),
        (groups(_gpu="2", **{"hygon.com/dcunum": "2"}), "cards of DCU and NVIDIA"),
        (groups(nodeSelector=["a"]), "nodeSelector is ['a']"),
        (groups(nodeSelector={"a": 1}), "nodeSelector 'a': 1"),
    ],
)
def test_broken(document: dict[str, Any], said: str) -> None:
    """The error names the group and what is wrong."""
    with pytest.raises(UndecodableError) as error:
        decode(document)
    assert said in str(error.value)


def test_which_group() -> None:
    """All labels must be there; more labels go first; two alike are an error."""
    wide, strict = NodeGroup("wide", {"a": "1"}), NodeGroup("strict", {"a": "1", "b": "2"})
    assert group_of([wide, strict], {"a": "1", "b": "2", "c": "3"}) is strict
    assert group_of([wide, strict], {"a": "1"}) is wide
    assert group_of([wide, strict], {"a": "2"}) is None
    assert group_of([], {}) is None
    with pytest.raises(UndecodableError, match="node groups other and wide alike"):
        group_of([wide, NodeGroup("other", {"b": "2"})], {"a": "1", "b": "2"})


@pytest.mark.skipif(not SEED.exists(), reason="seed manifests are not there")
def test_the_groups_of_the_article() -> None:
    """4 of 20 GB, 2 of 8, 2 of 40, 4 of 20."""
    found = decode(yaml.safe_load(SEED.read_text()))
    assert [(g.slices, g.memory_mib, g.cores) for g in found] == [
        (4, 20000, 100),
        (2, 8000, 100),
        (2, 40000, 100),
        (4, 20000, 100),
    ]


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())
keys = st.sampled_from(["name", "nodeSelector", "nvidia.com/gpu", "nvidia.com/gpumem"]) | st.text()


@FEW
@given(values | st.lists(st.dictionaries(keys, values | st.dictionaries(keys, values))))
def test_any_list_is_read_or_refused(found: Any) -> None:
    """Nothing else is raised."""
    try:
        decode({"nodeGroups": found})
    except UndecodableError:
        return
