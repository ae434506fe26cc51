"""What joining a cluster writes."""

import base64

import pytest

from federation.api.access import agent_access, cluster_registration
from federation.api.registry import parse


def test_agent_may_renew_its_own_lease_and_nothing_else():
    """One rule, one named Lease, no create, list or delete."""
    account, role, binding = agent_access("east")

    assert account["metadata"] == {"name": "agent-east", "namespace": "fedq-system"}
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["east"],
            "verbs": ["get", "update", "patch"],
        }
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "agent-east", "namespace": "fedq-system"}
    ]


def test_registration_names_its_secret():
    """The MultiKueueCluster points at the Secret, which holds the kubeconfig."""
    secret, cluster = cluster_registration("east", "kind: Config\n")

    source = parse(cluster).to_wire()["spec"]["clusterSource"]["kubeConfig"]
    assert source == {"locationType": "Secret", "location": secret["metadata"]["name"]}
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"kind: Config\n"


@pytest.mark.parametrize("name", ["", "East", "a_b", "-a", "a" * 241])
def test_bad_cluster_names_are_refused(name):
    """Before anything is written."""
    with pytest.raises(ValueError, match="cluster name"):
        agent_access(name)
