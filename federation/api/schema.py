"""pydantic's JSON schema of a model as a structural schema of a CustomResourceDefinition.

A structural schema has no $ref, no null branches, no open `additionalProperties` beside
`properties` and no titles (Kubernetes documentation, "Specifying a structural schema").
"""

from typing import Any, Final

from federation.api.meta import KubeObject

Json = dict[str, Any]

_DROPPED: Final = ("title", "propertyNames")
_RULES: Final = "x-kubernetes-validations"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def structural_schema(model: type[KubeObject]) -> Json:
    """The openAPIV3Schema of a kind. Only spec fields get defaults: status is ours to write."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    schema = _clean(raw, raw.pop("$defs", {}))
    properties: Json = schema["properties"]
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    if "status" in properties:
        properties["status"] = _without_defaults(properties["status"])
    return schema


def _clean(node: Json, defs: Json) -> Json:
    """One schema node with everything below it, definitions inlined."""
    node = _inline(node, defs)
    if node.get("x-kubernetes-int-or-string"):
        return {k: v for k, v in node.items() if k not in _DROPPED and k != "anyOf"}
    out = {k: v for k, v in node.items() if k not in _DROPPED}
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if out.get("type") == "integer":
        out.setdefault("format", "int64")
    if "properties" in out:
        out["properties"] = {k: _clean(v, defs) for k, v in out["properties"].items()}
    if "items" in out:
        out["items"] = _clean(out["items"], defs)
    _close_object(out, defs)
    if "default" in out and out["default"] in (None, ""):
        del out["default"]
    return out


def _inline(node: Json, defs: Json) -> Json:
    """The node with its reference and its null branch replaced by what they stand for.

    What is written beside a reference wins, except CEL rules, which add up.
    """
    for key, pick in (("$ref", None), ("anyOf", "anyOf")):
        if key not in node:
            continue
        rest = {k: v for k, v in node.items() if k != key}
        if pick is None:
            target = defs[node["$ref"].rpartition("/")[2]]
        else:
            branches = [b for b in node["anyOf"] if b.get("type") != "null"]
            if len(branches) != 1:
                raise ValueError(f"a union cannot be a structural schema: {branches}")
            target = branches[0]
        both = target.get(_RULES, []) + rest.get(_RULES, [])
        merged = {**target, **rest} | ({_RULES: both} if both else {})
        return _inline(merged, defs)
    return node


def _close_object(out: Json, defs: Json) -> None:
    """Free-form objects keep everything; others keep what they declare."""
    if out.get("type") != "object":
        return
    extra = out.get("additionalProperties")
    patterns = out.pop("patternProperties", None)
    if patterns:  # keys cannot be checked by a structural schema; admission policies do
        (extra,) = patterns.values()
    if isinstance(extra, dict):
        out["additionalProperties"] = _clean(extra, defs)
        if "maxItems" in out:
            out["maxProperties"] = out.pop("maxItems")
        return
    out.pop("additionalProperties", None)
    if "properties" not in out and extra:
        out[_OPEN] = True


def _without_defaults(node: Json) -> Json:
    """The same schema with no `default` anywhere (a property of that name stays)."""
    out = {k: v for k, v in node.items() if k != "default"}
    if "properties" in out:
        out["properties"] = {k: _without_defaults(v) for k, v in out["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = _without_defaults(out[key])
    return out
