"""Configuration files: what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from federation.api.configuration import to_pods_ready, to_retention
from fedq.lint.finding import Finding, Rule, Severity
from fedq.lint.world import World


def retention(world: World) -> Iterator[Finding]:
    """Finished Workloads are never deleted by default."""
    for thing, reading in world.configurations.items():
        if to_retention(reading.configuration).after_finished_s is None:
            yield Finding(
                thing,
                "objectRetentionPolicies.workloads.afterFinished is unset: finished Workloads"
                " stay for ever and fill etcd",
                "set it, for example to 168h",
            )


def pods_ready(world: World) -> Iterator[Finding]:
    """Whether pods that never start hold quota."""
    for thing, reading in world.configurations.items():
        settings = to_pods_ready(reading.configuration)
        if settings is None:
            said = "waitForPodsReady is off: a job whose pods never start holds its quota for ever"
            todo = "set waitForPodsReady with a timeout"
            yield Finding(thing, said, todo, ("waitForPodsReady",), Severity.WARNING)
        elif reading.configuration.wait_for_pods_ready is None:
            minutes = round(settings.timeout_s / 60)
            said = f"waitForPodsReady is unset: pods get {minutes} minutes to be ready (default)"
            todo = "set waitForPodsReady.timeout to what your images and nodes need"
            yield Finding(thing, said, todo)


RULES: Final = (
    Rule("retention", Severity.WARNING, retention),
    Rule("pods-ready", Severity.INFO, pods_ready),
)
