"""What every object has: metadata, conditions, and reading and writing without loss.

Unknown fields are kept, so that reading an object, changing it and writing it back never drops a
field of a newer version. Writing gives back exactly the fields that were read or set.
"""

from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from federation.api.fields import Time, list_map
from federation.api.spelling import normalize

Json = dict[str, Any]


class WireModel(BaseModel):
    """A part of a Kubernetes object: snake_case in Python, camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        use_attribute_docstrings=True,
    )

    always_written: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_noise(self, handler: SerializerFunctionWrapHandler) -> Json:
        """Leave out what is None, and defaults that nobody read, set or changed in place."""
        data: Json = handler(self)
        kept = self.model_fields_set | self.always_written
        for name, alias, default in _fields(type(self)):
            key = alias if alias in data else name
            value = data.get(key)
            noise = value is None or (name not in kept and (value in ({}, []) or value == default))
            if noise:
                data.pop(key, None)
        return data

    def to_wire(self) -> Json:
        """The object as the API takes it: plain JSON values only."""
        return self.model_dump(mode="json", by_alias=True)


@cache
def _fields(model: type[WireModel]) -> tuple[tuple[str, str, Any], ...]:
    """Name, alias and default of each field. Defaults made by a factory count as empty."""
    return tuple(
        (name, field.alias or name, field.default) for name, field in model.model_fields.items()
    )


class OwnerReference(WireModel):
    """The object that this one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(WireModel):
    """Object metadata; fields not named here are kept as they are."""

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Condition(WireModel):
    """One observation of an object's state (metav1.Condition)."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=1024)] = ""
    message: Annotated[str, Field(max_length=32768)] = ""
    last_transition_time: Time | None = None
    """When `status` last changed; not when reason or message did."""
    observed_generation: int | None = None


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]


class KubeObject(WireModel):
    """A whole object. Kinds set `api_version` and `kind` and add `spec` and `status`."""

    always_written: ClassVar[frozenset[str]] = frozenset({"api_version", "kind", "metadata"})

    api_version: str
    kind: str
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @classmethod
    def from_wire(cls, obj: Json) -> Self:
        """Read an object in either spelling.

        Raises pydantic.ValidationError with the path of each bad field.
        """
        return cls.model_validate(normalize(obj))

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` of a cluster-scoped object."""
        return self.metadata.key


def wire_time(moment: datetime) -> str:
    """An aware datetime as the API writes it: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wire_micro_time(moment: datetime) -> str:
    """An aware datetime as Leases have it (MicroTime): UTC, microseconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
