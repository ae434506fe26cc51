"""The section multiKueue of a Configuration: dispatchers, and access to ClusterProfiles."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.configuration import (
    ConfigurationError,
    read,
    to_access_providers,
    to_policies,
)
from federation.api.configuration_model import Configuration
from federation.core.dispatchers import Dispatcher, Dispatching

AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


def settings(gates: dict[str, bool] | None = None, **section: Any) -> Configuration:
    """The Configuration with this section."""
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    return read({**head, "multiKueue": section, "featureGates": gates or {}}).configuration


def dispatching(**section: Any) -> Dispatching:
    return to_policies(settings(**section)).dispatching


def test_dispatchers() -> None:
    """Scored unless the file says otherwise; a name that nobody knows is another program's."""
    assert dispatching().kind is Dispatcher.SCORED
    assert dispatching(dispatcherName="fedq.io/dispatcher-scored").kind is Dispatcher.SCORED
    assert dispatching(dispatcherName=AT_ONCE).kind is Dispatcher.ALL_AT_ONCE
    found = dispatching(dispatcherName=INCREMENTAL)
    assert (found.kind, found.step, found.round_s) == (Dispatcher.INCREMENTAL, 3, 300.0)
    config = {"stepSize": 5, "roundDuration": "90s"}
    found = dispatching(dispatcherName=INCREMENTAL, incrementalDispatcherConfig=config)
    assert (found.step, found.round_s) == (5, 90.0)
    found = dispatching(dispatcherName="example.com/mine")
    assert (found.kind, found.name) == (Dispatcher.EXTERNAL, "example.com/mine")


def test_weights() -> None:
    """By the name of the term."""
    assert dispatching(scoreWeights={"cost": 2, "mine": 0.5}).weights == {"cost": 2.0, "mine": 0.5}


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"incrementalDispatcherConfig": {"stepSize": 2}}, "only valid with dispatcherName"),
        ({"dispatcherName": AT_ONCE, "incrementalDispatcherConfig": {}}, "only valid with"),
        ({"dispatcherName": INCREMENTAL, "incrementalDispatcherConfig": {"stepSize": 0}}, "1"),
        (
            {"dispatcherName": INCREMENTAL, "incrementalDispatcherConfig": {"roundDuration": "0s"}},
            "longer than 0s",
        ),
        ({"dispatcherName": ""}, "1 character"),
        ({"scoreWeights": {"cost": -1}}, "0"),
        ({"clusterProfile": {"accessProviders": [{"name": "p"}]}}, "execConfig"),
    ],
)
def test_what_is_refused(section: dict[str, Any], why: str) -> None:
    """With the field."""
    with pytest.raises(ConfigurationError, match=why):
        settings(**section)


PROVIDER = {"name": "p", "execConfig": {"command": "plugin", "args": ["a"]}}


def test_access_providers() -> None:
    """On with the section, unless the feature gate says otherwise; both names of the list."""
    assert to_access_providers(settings()) is None
    assert to_access_providers(settings({"MultiKueueClusterProfile": True})) == {}
    profile = {"accessProviders": [PROVIDER], "credentialsProviders": [{**PROVIDER, "name": "q"}]}
    found = to_access_providers(settings(clusterProfile=profile))
    assert found is not None
    assert sorted(found) == ["p", "q"]
    assert (found["p"].exec_config.command, found["p"].exec_config.args) == ("plugin", ["a"])
    off = settings({"MultiKueueClusterProfile": False}, clusterProfile=profile)
    assert to_access_providers(off) is None
