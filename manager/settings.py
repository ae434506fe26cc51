"""Settings of the manager, from the environment and from its configuration file; read at start."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import structlog
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from federation.api import configuration as configurations
from federation.core.policies import (
    FairUsage,
    PodsReady,
    RequeueTimestamp,
    ResourceRules,
    Retention,
    Rules,
)
from federation.edge.configuration_file import load

log = structlog.get_logger(__name__)

_EMPTY = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}


class ManagerSettings(BaseSettings):
    """Each field can be set as FEDQ_<NAME>; Redis and Ray keep their usual names."""

    model_config = SettingsConfigDict(env_prefix="FEDQ_", extra="ignore")

    kubeconfig: Path | None = None
    """Kubeconfig of the management cluster; unset: $KUBECONFIG, else in-cluster."""
    context: str | None = None
    """Context in it; unset: the current one."""
    redis_url: str = Field(default="", validation_alias="REDIS_URL")
    """Redis or Valkey for the index; unset: an embedded Valkey (extra `embedded`)."""
    ray_address: str = Field(default="", validation_alias="RAY_ADDRESS")
    """A Ray cluster for the actors; unset: a local Ray of this manager."""
    runtime: Literal["ray", "in-process"] = "ray"
    """`ray`, or `in-process` to keep the cluster workers in this process."""
    listen: str = "127.0.0.1:8400"
    """Where health and metrics are served. Loopback by default: there is no authentication."""
    state_dir: Path = Path(tempfile.gettempdir()) / "fedq"
    """For the embedded Valkey's and Ray's sockets; short, as socket paths are limited to 107."""
    log_level: str = "info"
    """debug, info, warning or error."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What the configuration says of admission, as the core reads it."""

    rules: Rules = field(default_factory=Rules)
    resources: ResourceRules = field(default_factory=ResourceRules)
    pods_ready: PodsReady | None = None
    retention: Retention = field(default_factory=Retention)
    fair_usage: FairUsage | None = None

    @property
    def timestamp(self) -> RequeueTimestamp:
        """By which time workloads evicted for unready pods queue again."""
        return self.pods_ready.timestamp if self.pods_ready else RequeueTimestamp.EVICTION


def configured(path: Path | None) -> Policies:
    """What a configuration file says; Kueue's defaults without one. Notices go to the log.

    Raises ConfigurationFileError.
    """
    reading = configurations.read(_EMPTY) if path is None else load(path)
    for notice in reading.notices:
        where = ".".join(map(str, notice.path))
        log.warning("configuration.notice", file=str(path), field=where, text=notice.message)
    found = reading.configuration
    return Policies(
        configurations.to_rules(found),
        configurations.to_resource_rules(found),
        configurations.to_pods_ready(found),
        configurations.to_retention(found),
        configurations.to_fair_usage(found),
    )
