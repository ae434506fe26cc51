"""Label selectors (metav1.LabelSelector)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import atomic, rules
from federation.api.meta import WireModel


class LabelSelectorRequirement(WireModel):
    """One condition on a label."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.operator == 'In' || self.operator == 'NotIn') == "
                "(has(self.values) && size(self.values) > 0)",
                "operators In and NotIn need values, Exists and DoesNotExist take none",
            )
        )
    )

    key: Annotated[str, Field(max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[str], Field(json_schema_extra=atomic())] = Field(default_factory=list)


class LabelSelector(WireModel):
    """All conditions must hold; `{}` matches everything."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: Annotated[
        list[LabelSelectorRequirement], Field(json_schema_extra=atomic())
    ] = Field(default_factory=list)
