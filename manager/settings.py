"""Settings of the manager, from the environment; read at start."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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
