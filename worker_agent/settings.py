"""Settings of the agent, from the environment; read once at start."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from worker_agent.binder import Binder


class AgentSettings(BaseSettings):
    """Each field can be set as FEDQ_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="FEDQ_", extra="ignore")

    cluster: str
    """Name of this worker cluster: that of its MultiKueueCluster on the management cluster."""
    kubeconfig: Path | None = None
    """Kubeconfig of this worker; unset: $KUBECONFIG, else in-cluster."""
    context: str | None = None
    """Context in it; unset: the current one."""
    management_kubeconfig: Path
    """Kubeconfig of the management cluster; needs nothing but this cluster's Lease."""
    cards: Binder = Binder.HAMI
    """Who binds pods that have cards: `hami` (its scheduler), `agent` (kube-scheduler, and the
    agent writes what HAMi's device plugin reads), or `off`: cards are not counted."""
    listen: str = ""
    """host:port for health, metrics and status; unset: nothing listens."""
    log_level: str = "info"
    """debug, info, warning or error."""
