"""Cuts without network namespaces: proxies between the clusters of a rig on the loopback.

Each worker has two: `down`, by which the manager reaches its API server, and `up`, by which its
agent reaches the management API. `manager` is the manager's own way to the management API. The
programs of `fedq.stack` take these ways once `prepare` was called.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

import yaml

from fedq.drill.faults.link import Way
from fedq.rig.ports import allocate
from fedq.rig.rig import Rig
from fedq.stack import detours_file

_STALLED = {
    # link → ways that stall
    Way.BOTH: {"up": ["out", "in"], "down": ["out", "in"]},
    Way.FROM_WORKER: {"up": ["out"], "down": ["in"]},
    Way.TO_WORKER: {"up": ["in"], "down": ["out"]},
}


def prepare(rig: Rig) -> None:
    """Start the proxies of a rig that is up. Call it before Fedq is installed there."""
    file = detours_file(rig)
    if not file.exists():
        names = [
            "manager",
            *(f"{way}/{worker}" for worker in rig.workers for way in ("up", "down")),
        ]
        taken = [_api_port(rig, cluster) for cluster in rig.clusters]
        ports = allocate(len(names), rig.home, taken)
        file.write_text(json.dumps(dict(zip(names, ports, strict=True))))
    ports = json.loads(file.read_text())
    words = []
    for name, port in ports.items():
        cluster = name.partition("/")[2] if name.startswith("down/") else rig.management
        words.append(f"{name}={port}:{_api_port(rig, cluster)}")
    control = _control(rig)
    argv = [sys.executable, "-m", "fedq.drill.faults.proxy", str(control), *words]
    rig.start_process("proxies", argv, {}, control.exists)


class ProxiedLink:
    """See `Link`; and other faults of single ways, by their names."""

    how = "TCP proxies that fall silent, as this machine gives no network namespaces"

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    async def cut(self, worker: str, way: Way) -> None:
        """See `Link`."""
        for link, ways in _STALLED[way].items():
            await self.order(f"{link}/{worker}", do="cut", ways=ways, new=True)

    async def mend(self, worker: str) -> None:
        """See `Link`."""
        for link in ("up", "down"):
            await self.order(f"{link}/{worker}", do="mend")

    async def order(self, link: str, **words: Any) -> dict[str, Any]:
        """An order to the proxy, see `proxy`; returns its answer."""
        reader, writer = await asyncio.open_unix_connection(_control(self._rig))
        try:
            writer.write(json.dumps({"link": link, **words}).encode() + b"\n")
            await writer.drain()
            return dict(json.loads(await reader.readline()))
        finally:
            writer.close()


def _control(rig: Rig) -> Any:
    return rig.socket_dir / "proxies.sock"


def _api_port(rig: Rig, cluster: str) -> int:
    config = yaml.safe_load(rig.kubeconfig(cluster).read_text())
    return int(urlsplit(config["clusters"][0]["cluster"]["server"]).port or 443)
