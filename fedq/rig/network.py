"""Where the processes of a rig meet: on the loopback, or in network namespaces of their own.

With namespaces each cluster has one, joined by pairs of virtual interfaces to a router (one more
namespace), and so has this machine, from which commands and tests see everything:

    machine ── router ─┬─ management (API server, manager, Redis, Ray)
                       ├─ worker-1   (API server, scheduler, kwok, agent, …)
                       └─ worker-2   …

What is cut in the router between two of them is silent for both, and still seen from here. Names
come from the folder of the rig, addresses from 198.18.0.0/15, which is set aside for tests of
networks (RFC 2544): a /24 for each rig, a /30 for each pair.
"""

from __future__ import annotations

import hashlib
import ipaddress
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fedq.rig.errors import RigError

LOOPBACK = "127.0.0.1"
SPACE = ipaddress.IPv4Network("198.18.0.0/15")


_REFUSALS = ("not permitted", "denied", "read-only", "no such file", "not supported", "unknown")


class Network(Protocol):
    """Addresses of clusters, and how a process gets to one of them."""

    def host(self, cluster: str) -> str:
        """IPv4 address on which the servers of a cluster listen."""

    def inside(self, cluster: str) -> list[str]:
        """What stands before a command so that it runs where the cluster is."""


class Loopback:
    """All on one address, told apart by port."""

    def host(self, cluster: str) -> str:
        """See `Network`."""
        return LOOPBACK

    def inside(self, cluster: str) -> list[str]:
        """See `Network`."""
        return []


class Namespaces:
    """The namespaces of the rig in `home`.

    Args:
        subnet: the /24 of this rig, such as `198.18.7.0/24`; see `free_subnet`.
        clusters: in the order in which they were added, which gives them their addresses.
    """

    def __init__(self, home: Path, subnet: str, clusters: Sequence[str]) -> None:
        self._tag, self._machine_port = tag(home), _machine_port(home)
        self._pairs = list(ipaddress.IPv4Network(subnet).subnets(new_prefix=30))
        self._subnet, self._clusters = subnet, list(clusters)

    @property
    def router(self) -> str:
        """Name of the namespace through which all goes."""
        return f"{self._tag}-router"

    def name(self, cluster: str) -> str:
        """Name of the namespace of a cluster."""
        return f"{self._tag}-{cluster}"

    def port(self, cluster: str) -> str:
        """The router's interface towards a cluster."""
        return f"to{self._clusters.index(cluster)}"

    def host(self, cluster: str) -> str:
        """See `Network`."""
        return self._ends(1 + self._clusters.index(cluster))[1]

    def inside(self, cluster: str) -> list[str]:
        """See `Network`."""
        return within(self.name(cluster))

    def up(self) -> None:
        """Make what is missing. Raises RigError when this machine does not let us."""
        known = existing(self._tag)
        if self.router not in known:
            self._make_router()
        for cluster in self._clusters:
            if self.name(cluster) not in known:
                self._make(cluster)

    def _make_router(self) -> None:
        ours, here = self._machine_port, self._ends(0)
        ip("netns", "add", self.router)
        _enter(self.router, "ip", "link", "set", "lo", "up")
        _enter(self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        ip("link", "add", "name", ours, "type", "veth", "peer", "name", "out", "netns", self.router)
        _enter(self.router, "ip", "addr", "add", f"{here[0]}/30", "dev", "out")
        _enter(self.router, "ip", "link", "set", "out", "up")
        ip("addr", "add", f"{here[1]}/30", "dev", ours)
        ip("link", "set", ours, "up")
        ip("route", "add", self._subnet, "via", here[0], "dev", ours)

    def _make(self, cluster: str) -> None:
        space, port = self.name(cluster), self.port(cluster)
        near, far = self._ends(1 + self._clusters.index(cluster))
        ip("netns", "add", space)
        _enter(space, "ip", "link", "set", "lo", "up")
        pair = ("link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        _enter(self.router, "ip", *pair)
        _enter(self.router, "ip", "addr", "add", f"{near}/30", "dev", port)
        _enter(self.router, "ip", "link", "set", port, "up")
        _enter(space, "ip", "addr", "add", f"{far}/30", "dev", "eth0")
        _enter(space, "ip", "link", "set", "eth0", "up")
        # Only what is of this rig: a namespace has no way out of the machine.
        _enter(space, "ip", "route", "add", self._subnet, "via", near)

    def _ends(self, number: int) -> tuple[str, str]:
        """Addresses of pair `number`: the router's end and the other one."""
        first, second = self._pairs[number].hosts()
        return str(first), str(second)


def tag(home: Path) -> str:
    """What all names of a rig begin with; short, as names of interfaces have 15 characters."""
    return "fq" + hashlib.sha256(str(home).encode()).hexdigest()[:10]


def _machine_port(home: Path) -> str:
    """This machine's interface towards the router of the rig in `home`."""
    return f"{tag(home)}h"


def within(namespace: str) -> list[str]:
    """What stands before a command that is to run in a namespace; it keeps the pid."""
    return ["nsenter", f"--net=/run/netns/{namespace}", "--"]


def existing(prefix: str) -> list[str]:
    """Namespaces whose name begins with `prefix`."""
    try:
        found = [line.split()[0] for line in ip("netns", "list").splitlines() if line]
    except RigError:
        return []
    return [name for name in found if name.startswith(f"{prefix}-")]


def remove(home: Path) -> None:
    """Remove the namespaces of the rig in `home`, and with them all of its interfaces, routes and
    cuts; fine when there are none. Its processes must have ended.
    """
    names = existing(tag(home))
    # By name: with its namespace it would go too, but at a time of the kernel's choosing.
    if names and _machine_port(home) in ip("-br", "link", "show", "type", "veth"):
        ip("link", "delete", _machine_port(home))
    for name in names:
        ip("netns", "delete", name)


def free_subnet(home: Path) -> str:
    """A /24 for the rig in `home` that no route of this machine leads into."""
    nets = list(SPACE.subnets(new_prefix=24))
    start = int(hashlib.sha256(str(home).encode()).hexdigest()[:8], 16)
    routes = ip("-4", "route", "show", "table", "all")
    for step in range(len(nets)):
        net = nets[(start + step) % len(nets)]
        if f"{net.network_address.exploded.rsplit('.', 1)[0]}." not in routes:
            return str(net)
    raise RigError(f"no part of {SPACE} is free", "other rigs have it all", "Take some down.")


def why_not() -> str:
    """Why this machine cannot have namespaces for a rig; empty when it can.

    Only what a machine does not allow or does not have is such a reason; anything else is raised.
    """
    probe = f"fqprobe-{hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:6]}"
    made = False
    try:
        ip("netns", "add", probe)
        made = True
        _enter(probe, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _enter(
            probe, "ip", "link", "add", "name", "veth-a", "type", "veth", "peer", "name", "veth-b"
        )
        return ""
    except RigError as error:
        if not any(word in error.why.lower() for word in _REFUSALS):
            raise
        return error.why
    finally:
        if made:
            ip("netns", "delete", probe)


def ip(*args: str) -> str:
    """Output of the command `ip`. Raises RigError with its complaint."""
    return _run(["ip", *args])


def _enter(namespace: str, *command: str) -> str:
    return _run([*within(namespace), *command])


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RigError(
            f"{command[0]} cannot be run", str(error.strerror), "Install iproute2 and util-linux."
        ) from error
    if done.returncode:
        raise RigError(
            f"{' '.join(command)} failed ({done.returncode})",
            done.stderr.strip() or "it says nothing",
            "Namespaces need root or CAP_NET_ADMIN and CAP_SYS_ADMIN.",
        )
    return done.stdout
