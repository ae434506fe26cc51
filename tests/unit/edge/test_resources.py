"""Where resources are served."""

from federation.edge.resources import CRDS, JOBS, NODES, PODS, WORKLOADS


def test_paths() -> None:
    """Core and named groups, one namespace, all of them, none."""
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert WORKLOADS.path("ns", "w") == "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w"
    assert CRDS.path(name="x") == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x"
