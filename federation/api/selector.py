"""Label selectors (metav1.LabelSelector)."""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import atomic
from federation.api.meta import WireModel


class LabelSelectorRequirement(WireModel):
    """One condition on a label."""

    key: Annotated[str, Field(max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[str], Field(json_schema_extra=atomic())] = Field(default_factory=list)


class LabelSelector(WireModel):
    """All conditions must hold; `{}` matches everything."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: Annotated[
        list[LabelSelectorRequirement], Field(json_schema_extra=atomic())
    ] = Field(default_factory=list)
