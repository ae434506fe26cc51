"""AdmissionCheck: a further condition for admission, decided by a controller (Kueue API)."""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import DNS_LABEL_PATTERN, Count, rules
from federation.api.meta import Conditions, KubeObject, WireModel
from federation.api.names import KUEUE_API


class CheckParameters(WireModel):
    """The object that configures the check."""

    api_group: Annotated[str, Field(min_length=1, max_length=253)]
    kind: Annotated[
        str, Field(min_length=1, max_length=63, pattern=r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")
    ]
    name: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL_PATTERN)]


class AdmissionCheckSpec(WireModel):
    """Who decides, and with which parameters."""

    controller_name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            json_schema_extra=rules(("self == oldSelf", "controllerName is immutable")),
        ),
    ]
    parameters: CheckParameters | None = None
    retry_delay_minutes: Count | None = None
    """v1beta1 only, without effect."""


class AdmissionCheckStatus(WireModel):
    """Whether the controller can decide."""

    conditions: Conditions = Field(default_factory=list)


class AdmissionCheck(KubeObject):
    """A check that ClusterQueues can name."""

    api_version: str = KUEUE_API
    kind: Literal["AdmissionCheck"] = "AdmissionCheck"
    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = Field(default_factory=AdmissionCheckStatus)
