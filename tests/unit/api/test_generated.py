"""What is committed in deploy/ is what the models say, and is a structural schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.api.crd import crd
from federation.api.generate import files, main
from federation.api.registry import KINDS, REGISTRY

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_committed_files_are_up_to_date():
    """Run `python -m federation.api.generate` after a change of a model or policy."""
    committed = {
        p.relative_to(DEPLOY).as_posix(): p.read_text(encoding="utf-8")
        for folder in ("crds", "policies", "rbac")
        for p in (DEPLOY / folder).rglob("*.yaml")
    }

    assert committed == files()


def test_generator_removes_what_is_not_made_any_more(tmp_path):
    """A renamed kind leaves no old file behind; files elsewhere are not touched."""
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "gone.yaml").touch()
    (tmp_path / "mine.yaml").touch()

    main(tmp_path)

    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.yaml")}
    assert found == {*files(), "mine.yaml"}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[{key}]")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_schema_is_structural(kind):
    """No references, unions or titles; every node has a type; map keys are required or default."""
    for version in crd(kind)["spec"]["versions"]:
        for path, node in nodes(version["schema"]["openAPIV3Schema"]):
            assert not {"$ref", "$defs", "anyOf", "title", "patternProperties"} & node.keys(), path
            assert "type" in node or node.get("x-kubernetes-int-or-string"), path
            if node.get("x-kubernetes-list-type") == "map":
                item = node["items"]
                for key in node["x-kubernetes-list-map-keys"]:
                    known = item["properties"][key]
                    assert key in item.get("required", []) or "default" in known, path


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_status_has_no_defaults(kind):
    """A status nobody has written must stay empty."""
    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in nodes(schema["properties"].get("status", {})):
        assert "default" not in node, path


def test_both_versions_of_a_kueue_kind_have_one_schema():
    """Conversion is None, so the versions must agree."""
    for kind in KINDS:
        versions = crd(kind)["spec"]["versions"]
        assert all(v["schema"] == versions[0]["schema"] for v in versions)
        assert [v["storage"] for v in versions].count(True) == 1


def test_registry_knows_both_versions():
    """Every Kueue kind is served as v1beta1 and v1beta2."""
    kueue = {(v, k) for g, v, k in REGISTRY if g == "kueue.x-k8s.io"}

    assert len(kueue) == 22
    assert {v for v, _ in kueue} == {"v1beta1", "v1beta2"}


def test_generated_yaml_is_plain():
    """No anchors and no Python tags."""
    for path, text in files().items():
        assert "!!python" not in text, path
        assert all(yaml.safe_load_all(text)), path
        assert "&id" not in text, path
