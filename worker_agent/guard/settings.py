"""Settings of the guard, from the environment; read once at start."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from federation.core.failover import DEFAULT


class GuardSettings(BaseSettings):
    """Each field can be set as FEDQ_GUARD_<NAME>. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="FEDQ_GUARD_", extra="ignore")

    deadline_file: Path | None = None
    """The agent's FEDQ_DEADLINE_FILE, where the agent runs on this node."""
    deadline_url: str = ""
    """The agent's /status, where it runs anywhere; with https it has to prove who it is."""
    ca: Path | None = None
    """Certificate authority of that server; unset: those of this system."""
    cluster: str = ""
    """Name of this worker cluster: notices of another do not count; unset: any."""
    status_file: Path = Path("/var/lib/fedq/guard.json")
    """Where the guard notes, every tick, what it knows and does. Its next start reads it, and that
    after a start of the machine too: keep it where files outlive that."""
    lease: float = Field(DEFAULT.lease, gt=0)
    """L_W, where an answer of the agent does not say when it has renewed."""
    patience: float = Field(15.0, ge=0)
    """For so long a guard waits that has never heard of a renewal, before it stops runs: the lease
    may be over. A guard that starts again goes on waiting; the machine has to start for more."""
    kill: float = Field(DEFAULT.kill, gt=0)
    """K: what a run may take to end, where no notice says it."""
    margin: float = Field(5.0, ge=0)
    """What of K is left for processes to end after SIGKILL."""
    grace: float = Field(30.0, ge=0)
    """From SIGTERM to SIGKILL, at most; K without the margin bounds it too."""
    lead: float = Field(3.0, ge=0)
    """For so long after the end of the lease it is left to the agent to stop what runs."""
    cgroups: Path | None = None
    """Where the control groups of this node (version 2) are; unset: where they are mounted."""
    tick: float = Field(DEFAULT.tick, gt=0, le=DEFAULT.tick)
    """d: the guard looks at the clock at least that often; the manager counts on the default."""
    pull: float = Field(5.0, gt=0)
    """Period of the questions to `deadline_url`."""
    only: str = ""
    """An entry such as KEY=value; only processes with it in their environment are looked at. For
    machines that stand for several clusters."""
    log_level: str = "info"
    """debug, info, warning or error."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.deadline_file is None and not self.deadline_url:
            raise ValueError(
                "one of FEDQ_GUARD_DEADLINE_FILE and FEDQ_GUARD_DEADLINE_URL is needed"
            )
        if self.deadline_url and not self.deadline_url.startswith(("http://", "https://")):
            raise ValueError(f"FEDQ_GUARD_DEADLINE_URL is no http(s) address: {self.deadline_url}")
        if self.lead + self.margin >= self.kill:
            raise ValueError(
                f"FEDQ_GUARD_KILL is {self.kill:g} s: a lead of {self.lead:g} s for the agent and "
                f"a margin of {self.margin:g} s leave a run no time to end"
            )
        return self
