"""ClusterProfile (multicluster.x-k8s.io): a cluster that another program registered.

It has the address of the cluster per access provider, and no credentials: those come from the
plugin that the Configuration names for that provider, and from nowhere else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Access:
    """The provider to use, and the cluster as a kubeconfig describes it."""

    provider: str
    cluster: Json

    def info(self) -> Json:
        """spec.cluster of the ExecCredential that a plugin gets, if it wants to know."""
        extensions = self.cluster.get("extensions") or ()
        config = next((e.get("extension") for e in extensions if e.get("name") == _EXTENSION), None)
        known = {
            key: self.cluster[key]
            for key in ("server", "tls-server-name", "certificate-authority-data")
            if self.cluster.get(key)
        }
        return known if config is None else {**known, "config": config}


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin returned. `expires` is in seconds since the epoch; None: not known."""

    token: str = field(default="", repr=False)
    client_cert_pem: str = ""
    client_key_pem: str = field(default="", repr=False)
    expires: float | None = None


def offered(obj: Mapping[str, Any]) -> list[str]:
    """Names of the providers that a profile offers."""
    return [str(entry.get("name", "")) for entry in _entries(obj)]


def access_of(obj: Mapping[str, Any], providers: Iterable[str]) -> Access | None:
    """The first access that the profile offers of those known; None if it offers none."""
    known = set(providers)
    for entry in _entries(obj):
        if entry.get("name") in known and isinstance(entry.get("cluster"), dict):
            return Access(str(entry["name"]), entry["cluster"])
    return None


def _entries(obj: Mapping[str, Any]) -> list[Json]:
    """status.accessProviders; credentialProviders is its old name."""
    status = obj.get("status") or {}
    found = [*(status.get("accessProviders") or ()), *(status.get("credentialProviders") or ())]
    return [entry for entry in found if isinstance(entry, dict)]


def kubeconfig(access: Access, credential: Credential) -> bytes:
    """The two as a kubeconfig, whose content is judged like that of any other."""
    cluster = {key: value for key, value in access.cluster.items() if key != "extensions"}
    user = {
        "token": credential.token,
        "client-certificate-data": _encoded(credential.client_cert_pem),
        "client-key-data": _encoded(credential.client_key_pem),
    }
    named = {"name": "profile"}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "profile",
        "clusters": [{**named, "cluster": cluster}],
        "users": [{**named, "user": {key: value for key, value in user.items() if value}}],
        "contexts": [{**named, "context": {"cluster": "profile", "user": "profile"}}],
    }
    return json.dumps(body, sort_keys=True).encode()


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode() if pem else ""
