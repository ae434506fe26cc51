"""CustomResourceDefinitions from the registry.

Both served versions have the same schema, a superset of both spellings, so that no conversion
webhook is needed (conversion None); v1beta2 is stored.
"""

from typing import Any

from federation.api.names import KUEUE_OLD_VERSION
from federation.api.registry import Column, Kind
from federation.api.schema import structural_schema

Json = dict[str, Any]


def crd(kind: Kind) -> Json:
    """The CustomResourceDefinition of a kind."""
    schema = structural_schema(kind.model)
    names: Json = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": kind.scope,
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, v, schema) for v in kind.versions],
        },
    }


def _version(kind: Kind, version: str, schema: Json) -> Json:
    out: Json = {
        "name": version,
        "served": True,
        "storage": version == kind.versions[0],
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [_column(c) for c in kind.columns],
    }
    if version == KUEUE_OLD_VERSION:
        out["deprecated"] = True
        out["deprecationWarning"] = (
            f"{kind.group}/{version} {kind.name} is deprecated; use {kind.group}/{kind.versions[0]}"
        )
    if kind.selectable:
        out["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    if "status" in schema["properties"]:
        out["subresources"] = {"status": {}}
    return out


def _column(column: Column) -> Json:
    out: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        out["priority"] = column.priority
    if column.description:
        out["description"] = column.description
    return out
