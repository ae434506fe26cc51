"""The section multiKueue of a Configuration: dispatch to worker clusters.

Kueue's format, and a few fields of our own: how long a round of the incremental dispatcher is, and
what the terms of the score weigh.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from federation.api.duration import Duration, parse_duration
from federation.api.fields import LabelValue, Positive
from federation.api.meta import WireModel
from federation.core.dispatchers import Dispatcher, Dispatching

SCORED: Final = "fedq.io/dispatcher-scored"
ALL_AT_ONCE: Final = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL: Final = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
_NAMES: Final = {
    SCORED: Dispatcher.SCORED,
    ALL_AT_ONCE: Dispatcher.ALL_AT_ONCE,
    INCREMENTAL: Dispatcher.INCREMENTAL,
}


class ExecVariable(WireModel):
    """One variable in the environment of a plugin."""

    name: Annotated[str, Field(min_length=1)]
    value: str = ""


class ExecConfig(WireModel):
    """A credential plugin (client.authentication.k8s.io), as in a kubeconfig."""

    model_config = ConfigDict(extra="allow")

    command: Annotated[str, Field(min_length=1)]
    api_version: Literal[
        "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
    ] = "client.authentication.k8s.io/v1"
    args: list[str] = Field(default_factory=list)
    env: list[ExecVariable] = Field(default_factory=list)
    provide_cluster_info: bool = False
    install_hint: str = ""


class AccessProvider(WireModel):
    """How to get credentials for the clusters whose profiles name this provider."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    exec_config: ExecConfig


class ProfileAccess(WireModel):
    """How clusters of ClusterProfiles are accessed."""

    access_providers: list[AccessProvider] = Field(default_factory=list)
    credentials_providers: list[AccessProvider] = Field(default_factory=list)
    """The old name of accessProviders."""

    @property
    def providers(self) -> tuple[AccessProvider, ...]:
        """All of them, in order."""
        return (*self.access_providers, *self.credentials_providers)


def _positive(duration: str) -> str:
    if parse_duration(duration) == 0:
        raise ValueError("it must be longer than 0s")
    return duration


class IncrementalDispatcher(WireModel):
    """How the incremental dispatcher goes about it."""

    step_size: Positive = 3
    """Clusters that each round adds."""
    round_duration: Annotated[Duration, AfterValidator(_positive)] = "5m"
    """Not in Kueue's format, where it is fixed: for how long a round stays open."""


Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class MultiKueue(WireModel):
    """Dispatch to worker clusters."""

    gc_interval: Duration = "1m"
    origin: LabelValue = "multikueue"
    worker_lost_timeout: Duration = "15m"
    dispatcher_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Default: fedq.io/dispatcher-scored. A name that is not known is that of another program."""
    incremental_dispatcher_config: IncrementalDispatcher | None = None
    external_frameworks: list[dict[str, Any]] = Field(default_factory=list)
    cluster_profile: ProfileAccess | None = None
    score_weights: dict[str, Weight] = Field(default_factory=dict)
    """Not in Kueue's format: term of the score to weight; what is not named keeps its default."""

    @model_validator(mode="after")
    def _step_only_with_incremental(self) -> MultiKueue:
        if self.incremental_dispatcher_config and self.dispatcher_name != INCREMENTAL:
            raise ValueError(
                f"incrementalDispatcherConfig is only valid with dispatcherName {INCREMENTAL}"
            )
        return self

    def providers(self, gate: bool | None) -> dict[str, AccessProvider] | None:
        """Access providers of ClusterProfiles by name; None where profiles are switched off.

        The feature gate decides; where the file does not name it, the section switches them on.
        """
        found = self.cluster_profile
        if not (found is not None if gate is None else gate):
            return None
        named = found.providers if found else ()
        return {provider.name: provider for provider in reversed(named)}

    def dispatching(self) -> Dispatching:
        """The settings as the core sees them."""
        name = self.dispatcher_name or SCORED
        found = self.incremental_dispatcher_config or IncrementalDispatcher()
        return Dispatching(
            _NAMES.get(name, Dispatcher.EXTERNAL),
            name,
            found.step_size,
            parse_duration(found.round_duration),
            dict(self.score_weights),
        )
