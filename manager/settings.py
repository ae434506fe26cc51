"""Settings of the manager, from the environment; read at start."""

from __future__ import annotations

import ipaddress
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from federation.core.election import ElectionTimes
from federation.core.exposure import OfferLimits
from federation.core.failover import PROFILES, Timings
from federation.core.plain_kueue import WORKER_LOST_S
from federation.edge.kubeconfig_file import DEFAULT_DIRECTORY


class ManagerSettings(BaseSettings):
    """Each field can be set as FEDQ_<NAME>; Redis and Ray keep their usual names."""

    model_config = SettingsConfigDict(env_prefix="FEDQ_", extra="ignore")

    kubeconfig: Path | None = None
    """Kubeconfig of the management cluster; unset: $KUBECONFIG, else in-cluster."""
    context: str | None = None
    """Context in it; unset: the current one."""
    kubeconfig_dir: Path = DEFAULT_DIRECTORY
    """Kubeconfigs of worker clusters with locationType Path have to be below this directory."""
    redis_url: str = Field(default="", validation_alias="REDIS_URL")
    """Redis or Valkey for the index; unset: an embedded Valkey (extra `embedded`)."""
    ray_address: str = Field(default="", validation_alias="RAY_ADDRESS")
    """A Ray cluster for the actors; unset: a local Ray of this manager."""
    runtime: Literal["ray", "in-process"] = "ray"
    """`ray`, or `in-process` to keep the cluster workers in this process."""
    local_queues: bool = False
    """Queues without a MultiKueue check are for jobs of the management cluster itself, run by an
    agent beside this manager. Off: they use all worker clusters."""
    listen: str = "127.0.0.1:8400"
    """Where health and metrics are served. Loopback by default: there is no authentication."""
    read_listen: str = ""
    """Where people read logs and events of their jobs (`fedq logs --manager`); unset: nowhere. With
    a certificate, unless it is a loopback address."""
    read_cert: Path | None = None
    """Certificate (chain) of it, PEM; read at start."""
    read_key: Path | None = None
    """Key of that, PEM."""
    keep_finished_s: float = Field(default=600.0, ge=0, le=7 * 86_400)
    """For how long a copy that ended stays on its worker cluster once its result is recorded, for
    those who read its logs."""
    state_dir: Path = Path(tempfile.gettempdir()) / "fedq"
    """For the embedded Valkey's and Ray's sockets; short, as socket paths are limited to 107."""
    log_level: str = "info"
    """debug, info, warning or error."""
    leader_elect: bool = True
    """With other managers of this management cluster: one leads, the others stand by. Off: this one
    always leads, and must be the only one."""
    leader_lease_s: int = 15
    """Silence of the leader after which another one takes over."""
    leader_renew_deadline_s: float = 10.0
    """A leader whose renewals have failed for as long does nothing until one succeeds."""
    leader_retry_s: float = 2.0
    """How often the leader renews, and the others look."""
    failover_profile: Literal["default", "fast"] = "default"
    """The times of failover: default, or fast (an outage of the management API of 30 s stops what
    may run once only). The settings below change single ones, in seconds."""
    renew_s: float | None = None
    """R: how often agents renew their Lease."""
    suspect_s: float | None = None
    """T_s: silence after which a cluster gets no new work."""
    lease_s: float | None = None
    """L_W: for how long a renewal holds; then an agent stops what may run once only."""
    kill_s: float | None = None
    """K: within this it has ended, termination grace included."""
    clamp_grace: bool = False
    """What has the policy stop and may take longer than K to end is told to end within K, instead
    of being refused."""
    rerun_s: float | None = None
    """L_M: silence after which jobs run elsewhere."""
    recover_s: float | None = None
    """For how long a cluster has to be well before it gets new work again."""
    worker_lost_s: float = Field(default=WORKER_LOST_S, ge=1, le=7 * 86_400)
    """Of clusters that plain Kueue runs, without an agent: after so long without contact their jobs
    run elsewhere, and two copies are possible. MultiKueue's workerLostTimeout."""

    offer_patience_s: float = 2.0
    """A cluster that has not answered an offer for as long gets no others until it does."""
    offers_first: int = 8
    """How many offers may be open to a cluster that has answered none within that time. One that
    answers may have as many more open as it answered within that time."""
    offers_most: int = 32
    """How many offers may be open to one cluster at once, however fast it answers."""

    def reading_tls(self) -> tuple[Path, Path] | None:
        """Certificate and key of the pages of logs. Raises ValueError where they are needed and
        missing: tokens are not sent over a network in the clear.
        """
        host, _, port = self.read_listen.rpartition(":")
        if self.read_listen and not (host and port.isdecimal()):
            raise ValueError(f"FEDQ_READ_LISTEN is {self.read_listen!r}: it takes HOST:PORT")
        if self.read_cert is not None and self.read_key is not None:
            return self.read_cert, self.read_key
        if self.read_listen and not _loopback(host):
            raise ValueError(
                f"FEDQ_READ_LISTEN is {self.read_listen}, which others reach: people send their"
                " tokens there, so FEDQ_READ_CERT and FEDQ_READ_KEY have to name a certificate and"
                " its key"
            )
        return None

    def offers(self) -> OfferLimits:
        """How many offers may be open. Raises ValueError where that makes no sense."""
        limits = OfferLimits(self.offer_patience_s, self.offers_first, self.offers_most)
        if problem := limits.problem():
            raise ValueError(f"the settings of offers do not fit together: {problem}")
        return limits

    def election(self) -> ElectionTimes:
        """The times of leadership. Raises ValueError, with the numbers, where they do not fit."""
        times = ElectionTimes(
            self.leader_lease_s, self.leader_renew_deadline_s, self.leader_retry_s
        )
        if problem := times.problem():
            raise ValueError(f"the times of leadership do not fit together: {problem}")
        return times

    def timings(self) -> Timings:
        """The profile with its changes. Raises ValueError, with the numbers, where they keep no
        promise.
        """
        names = ("renew", "suspect", "lease", "kill", "rerun", "recover")
        given = {name: getattr(self, f"{name}_s") for name in names}
        changed = {name: value for name, value in given.items() if value is not None}
        timings = replace(PROFILES[self.failover_profile], **changed)
        if problem := timings.problem():
            raise ValueError(f"the times of failover do not fit together: {problem}")
        return timings


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
