"""Field types shared by the models: value checks and their form in a structural schema.

A check written here holds twice: pydantic applies it when an object is parsed, and the generated
CRD makes the API server apply it.
"""

from typing import Annotated, Any

from pydantic import Field, JsonValue, WithJsonSchema

DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
QUANTITY_PATTERN = r"^[+]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
"""Non-negative Kubernetes quantities: no quota, request or weight of this API is negative."""

_INT32_MAX = 2**31 - 1


def list_map(*keys: str) -> dict[str, JsonValue]:
    """Schema marks of a list whose items are known by `keys` (merged per item by apply)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def atomic() -> dict[str, JsonValue]:
    """Schema marks of a list that one owner writes as a whole."""
    return {"x-kubernetes-list-type": "atomic"}


def value_set() -> dict[str, JsonValue]:
    """Schema marks of a list of unique scalars."""
    return {"x-kubernetes-list-type": "set"}


def rules(*pairs: tuple[str, str]) -> dict[str, JsonValue]:
    """CEL rules of a schema node, as (expression, message) pairs."""
    return {"x-kubernetes-validations": [{"rule": r, "message": m} for r, m in pairs]}


Name = Annotated[str, Field(max_length=253, pattern=DNS_SUBDOMAIN_PATTERN)]
"""A DNS subdomain: the name of a cluster-scoped object."""

Label63 = Annotated[str, Field(max_length=63, pattern=DNS_LABEL_PATTERN)]
"""A DNS label."""

LabelKey = Annotated[str, Field(min_length=1, max_length=317, pattern=QUALIFIED_NAME_PATTERN)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE_PATTERN)]
ResourceName = Annotated[str, Field(min_length=1, max_length=253, pattern=QUALIFIED_NAME_PATTERN)]

LabelMap = Annotated[dict[LabelKey, LabelValue], Field(max_length=8)]
"""Up to eight labels. Keys are checked here and by an admission policy: a schema cannot."""

Quantity = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(max_length=64, pattern=QUANTITY_PATTERN)],
    WithJsonSchema({"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": QUANTITY_PATTERN}),
]
"""A Kubernetes quantity as written: `8`, `"500m"`, `"16Gi"`; `federation.core` reads it."""

Resources = dict[str, Quantity]
"""Resource name to quantity."""

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""An RFC 3339 time in UTC, kept as it came."""

Int32 = Annotated[
    int, Field(ge=-_INT32_MAX - 1, le=_INT32_MAX, json_schema_extra={"format": "int32"})
]
Count = Annotated[int, Field(ge=0, le=_INT32_MAX, json_schema_extra={"format": "int32"})]
Positive = Annotated[int, Field(ge=1, le=_INT32_MAX, json_schema_extra={"format": "int32"})]

FreeForm = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""An object whose schema belongs to someone else, such as a pod template."""
