"""kubeconfig files with everything inline, so that they can be copied into a Secret."""

from __future__ import annotations

import base64
from pathlib import Path

from federation.api import yaml_text
from federation.edge.files import write_atomic


def write_kubeconfig(
    path: Path, *, cluster: str, server: str, ca: Path, identity: Path, user: str
) -> Path:
    """Write the kubeconfig of `user` on `cluster`; an equal file is left as it is.

    Args:
        identity: PEM file with the client certificate and its key.
    """
    pem = identity.read_text()
    start = pem.index("-----BEGIN PRIVATE KEY")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": _b64(ca.read_text())},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _b64(pem[:start]),
                    "client-key-data": _b64(pem[start:]),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    text = yaml_text.dump(content)
    if not path.exists() or path.read_text() != text:
        write_atomic(path, text)
    return path


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
