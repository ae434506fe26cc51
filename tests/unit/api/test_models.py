"""The models read real manifests and refuse bad ones with a path."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from federation.api.names import FEDQ_GROUP, KUEUE_GROUP
from federation.api.registry import parse

SEEDS = Path(__file__).parents[3].parent / "shared" / "seed-manifests"
CONFIGURATION = {"Configuration", "KueueConfiguration"}


def seed_objects():
    """Objects of Kueue's group in the seed manifests, if these are there."""
    for path in sorted(SEEDS.glob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            group = str(obj.get("apiVersion", "")).partition("/")[0]
            if group in (KUEUE_GROUP, FEDQ_GROUP) and obj["kind"] not in CONFIGURATION:
                yield pytest.param(obj, id=f"{path.stem}-{obj['metadata']['name']}")


OBJECTS = list(seed_objects())


@pytest.mark.skipif(not OBJECTS, reason="no seed manifests beside the checkout")
def test_seed_manifests_are_read_without_loss():
    """Each one parses, and nothing but the spelling changes."""
    for (obj,) in (param.values for param in OBJECTS):
        parsed = parse(obj)

        wire = parsed.to_wire()
        assert wire["metadata"] == obj["metadata"]
        assert parse(wire).to_wire() == wire


def kueue(kind, spec):
    """An object of that kind."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (kueue("ResourceFlavor", {"nodeLabels": {"显卡": "a100"}}), "nodeLabels"),
        (kueue("ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "Never"}]}), "nodeTaints"),
        (kueue("ClusterQueue", {"stopPolicy": "Sometimes"}), "stopPolicy"),
        (kueue("ClusterQueue", {"queueingStrategy": "LIFO"}), "queueingStrategy"),
        (kueue("Workload", {"podSets": []}), "podSets"),
        (kueue("Workload", {"podSets": [{"template": {}, "count": -1}]}), "count"),
        (kueue("MultiKueueConfig", {"clusters": []}), "clusters"),
        (kueue("Cohort", {"resourceGroups": [{"coveredResources": ["a b"]}]}), "coveredResources"),
        (kueue("Cohort", {"fairSharing": {"weight": "-1"}}), "weight"),
        (kueue("Cohort", {"fairSharing": {"weight": "many"}}), "weight"),
        (kueue("Cohort", "none"), "spec"),
    ],
)
def test_bad_objects_are_refused_with_the_path(obj, where):
    """The error names the field as the manifest does."""
    with pytest.raises(ValidationError, match=where):
        parse(obj)
