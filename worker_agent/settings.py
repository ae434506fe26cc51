"""Settings of the agent, from the environment; read once at start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from federation.core.devices.fleet.strategies.named import DEFAULT, STRATEGIES
from federation.core.failover import Tier
from worker_agent.binder import Binder

T = TypeVar("T")


class AgentSettings(BaseSettings):
    """Each field can be set as FEDQ_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="FEDQ_", extra="ignore")

    beside_manager: bool = False
    """Run the local queues of the management cluster, beside its manager, instead of a worker
    cluster: without a Lease, and without a MultiKueueCluster."""
    cluster: Annotated[str, Field(validate_default=True)] = ""
    """Name of this worker cluster: that of its MultiKueueCluster on the management cluster."""
    kubeconfig: Path | None = None
    """Kubeconfig of this worker; unset: $KUBECONFIG, else in-cluster."""
    context: str | None = None
    """Context in it; unset: the current one."""
    management_kubeconfig: Annotated[Path | None, Field(validate_default=True)] = None
    """Kubeconfig of the management cluster; needs nothing but this cluster's Lease."""
    cards: Binder = Binder.HAMI
    """Who binds pods that have cards: `hami` (its scheduler), `agent` (kube-scheduler, and the
    agent writes what HAMi's device plugin reads), or `off`: cards are not counted."""
    card_strategy: str = DEFAULT
    """How cards are chosen: a name of `federation.core.devices.fleet.strategies.named`."""
    node_groups: Path | None = None
    """A file that says how cards are cut on which nodes (`nodeGroups`, YAML); unset: as they
    register."""
    checks_s: float = Field(default=600.0, ge=1.0, le=30 * 86400.0)
    """For how many seconds a copy may wait here for admission checks of this cluster, with its
    quota, before it is refused."""
    provisioning: bool = False
    """Whether the agent itself answers checks of `kueue.x-k8s.io/provisioning-request`, with
    ProvisioningRequests; no: whoever else does it there."""
    deadline_file: Path | None = None
    """Where it is noted when the lease ends: for the next start of the agent, and for guards on
    nodes; unset: nowhere, and an agent that is started anew stops what has the policy stop if it
    cannot renew at once."""
    tier: Literal[Tier.AGENT, Tier.GUARD, Tier.TOKEN] = Tier.AGENT
    """How well this cluster keeps `stop`, as the manager shows it: A (the agent), B (a guard on
    every node), C (as B, and the store of checkpoints refuses old attempts)."""
    listen: str = ""
    """host:port for health, metrics and status; unset: nothing listens."""
    log_level: str = "info"
    """debug, info, warning or error."""

    @field_validator("cluster", "management_kubeconfig")
    @classmethod
    def _of_a_worker(cls, value: T, info: ValidationInfo) -> T:
        beside = info.data.get("beside_manager", False)
        if beside and value:
            raise ValueError("with FEDQ_BESIDE_MANAGER it has to be unset")
        if not beside and not value:
            raise ValueError("it is required, unless FEDQ_BESIDE_MANAGER=true")
        return value

    @field_validator("card_strategy")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in STRATEGIES:
            raise ValueError(f"there are {', '.join(STRATEGIES)}")
        return name
