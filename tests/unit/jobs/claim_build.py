"""Objects of `resource.k8s.io/v1` as HAMi's driver and its users write them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
DRIVER = "hami-core-gpu.project-hami.io"
GROUP = "resource.k8s.io/v1"


def device(number: int, **more: Any) -> Json:
    """A card of 40 GiB."""
    return {
        "name": f"hami-gpu-{number}",
        "attributes": {
            "type": {"string": "hami-gpu"}, "uuid": {"string": f"GPU-{number}"},
            "minor": {"int": number}, "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "driverVersion": {"version": "550.54.15"},
        },
        "capacity": {
            "cores": {"value": "100", "requestPolicy": {
                "default": "100", "validRange": {"min": "0", "max": "100", "step": "1"}}},
            "memory": {"value": "40Gi", "requestPolicy": {
                "default": "40Gi", "validRange": {"min": "1Mi", "max": "40Gi", "step": "1Mi"}}},
        },
        "allowMultipleAllocations": True,
        **more,
    }  # fmt: skip


def resource_slice(name: str, node: str, *devices: Json, **pool: Any) -> Json:
    """A part of a node's pool."""
    return {
        "apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": list(devices),
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **pool},
        },
    }  # fmt: skip


def device_class(name: str = "hami-gpu", extended: str = "") -> Json:
    """All cards of the driver."""
    cel = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "hami-gpu"'
    spec: Json = {"selectors": [{"cel": {"expression": cel}}]}
    if extended:
        spec["extendedResourceName"] = extended
    meta = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": meta, "spec": spec}


def template(name: str, count: int = 1, namespace: str = "ns", **capacity: str) -> Json:
    """A claim of `count` cards, each with so much."""
    exactly: Json = {"deviceClassName": "hami-gpu", "allocationMode": "ExactCount", "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    return {
        "apiVersion": GROUP, "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": devices}},
    }  # fmt: skip


def allocated(uid: str, *results: Json, pods: tuple[str, ...] = ("pod-1",), node: str = "") -> Json:
    """A claim with its devices."""
    allocation: Json = {"devices": {"results": list(results)}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    users = [{"resource": "pods", "name": pod, "uid": pod} for pod in pods]
    return {
        "apiVersion": GROUP, "kind": "ResourceClaim",
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "status": {"allocation": allocation, "reservedFor": users},
    }  # fmt: skip


def result(number: int, pool: str = "n1", **more: Any) -> Json:
    """A card that a claim got."""
    found = {"request": "gpu", "driver": DRIVER, "pool": pool, "device": f"hami-gpu-{number}"}
    return {**found, **more}
