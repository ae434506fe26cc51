"""WorkloadPriorityClass: a priority that is not a pod priority (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import Int32
from federation.api.meta import KubeObject
from federation.api.names import KUEUE_API


class WorkloadPriorityClass(KubeObject):
    """Order in the queue, without an effect on pods."""

    api_version: str = KUEUE_API
    kind: Literal["WorkloadPriorityClass"] = "WorkloadPriorityClass"
    value: Int32
    """Higher goes first."""
    description: Annotated[str, Field(max_length=2048)] = ""
