"""The faults themselves: a cut is silence and no error, one-way where it says so, and is mended.

A fault that does something else than it says makes every drill that uses it worthless.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fedq.drill.faults import store
from fedq.drill.faults.link import Way, partition
from fedq.drill.faults.processes import dead, frozen
from fedq.drill.faults.routed import RoutedLink
from fedq.rig.errors import RigError
from fedq.rig.network import Namespaces, existing, remove, tag, why_not
from fedq.rig.rig import Rig
from fedq.rig.waiting import wait_until
from fedq.stack import Stack

pytestmark = [pytest.mark.rig, pytest.mark.timeout(180)]

QUIET = 0.6
"""Seconds for which nothing may come through a cut; a packet needs a thousandth of that."""

HEAR = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
    ear.bind((sys.argv[1], 4000))
    print("listening", flush=True)
    while True:
        data, sender = ear.recvfrom(100)
        print(data.decode(), flush=True)
        ear.sendto(b"answer", sender)
"""
SAY = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
    mouth.settimeout(float(sys.argv[3]))
    mouth.sendto(sys.argv[2].encode(), (sys.argv[1], 4000))
    try:
        print(mouth.recv(100).decode())
    except TimeoutError:
        print("silence")
    except OSError as error:
        print("told:", error)
"""
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
    print("connected")
except TimeoutError:
    print("silence")
except OSError as error:
    print("told:", error)
"""


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A rig with network namespaces; nothing of them may remain."""
    if why := why_not():
        pytest.skip(f"no network namespaces here: {why}")
    home = tmp_path_factory.mktemp("apart") / "rig"
    rig = Rig.load(home)
    try:
        rig.up(1, nodes=0, namespaces=True)
        yield rig
    finally:
        rig.down()
    assert existing(tag(home)) == []
    assert tag(home) not in subprocess.run(["ip", "link"], capture_output=True, text=True).stdout


def where(rig: Rig, cluster: str) -> list[str]:
    """What stands before a Python command that runs in the network of a cluster."""
    return [*rig.network.inside(cluster), sys.executable, "-c"]


def say(rig: Rig, source: str, target: str, word: str, patience: float = QUIET) -> str:
    """The answer to a datagram, `silence`, or `told: …` if the sender got an error."""
    command = [*where(rig, source), SAY, rig.network.host(target), word, str(patience)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def reach(rig: Rig, source: str, target: str, patience: float = QUIET) -> str:
    """How a new TCP connection to the API server of a cluster ends."""
    port = rig.status().clusters[target].api_url.rpartition(":")[2]
    command = [*where(rig, source), REACH, rig.network.host(target), port, str(patience)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def ear(apart: Rig, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Somebody in the management cluster who hears datagrams and answers them."""
    command = [*where(apart, "management"), HEAR, apart.network.host("management")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        os.set_blocking(process.stdout.fileno(), False)
        yield process
        process.terminate()


def heard(ear: subprocess.Popen[str]) -> list[str]:
    """What it has heard since the last time."""
    assert ear.stdout is not None
    return ear.stdout.read().split()


@pytest.mark.parametrize(
    ("way", "arrives"),
    [(Way.BOTH, False), (Way.FROM_WORKER, False), (Way.TO_WORKER, True)],
    ids=lambda value: str(value),
)
async def test_a_cut_loses_packets_one_way_or_both_and_tells_nobody(
    apart: Rig, ear: subprocess.Popen[str], way: Way, arrives: bool
) -> None:
    """From the worker a datagram arrives or not, and the answer never does."""
    link = RoutedLink(apart)
    assert say(apart, "worker-1", "management", "before", 5) == "answer"
    async with partition(link, "worker-1", way=way):
        assert say(apart, "worker-1", "management", "during") == "silence"
        assert reach(apart, "worker-1", "management") == "silence"
        assert reach(apart, "management", "worker-1") == "silence"
        assert heard(ear) == (["before", "during"] if arrives else ["before"])
        assert apart.kubectl("worker-1", "get", "--raw=/readyz") == "ok"  # we still see both
        assert apart.kubectl("management", "get", "--raw=/readyz") == "ok"
    assert say(apart, "worker-1", "management", "after", 5) == "answer"
    assert reach(apart, "management", "worker-1", 5) == "connected"


async def test_a_cut_can_be_made_and_mended_twice(apart: Rig) -> None:
    """A drill that was interrupted and goes on must not find half a cut."""
    link = RoutedLink(apart)
    await link.cut("worker-1", Way.BOTH)
    await link.cut("worker-1", Way.BOTH)
    assert reach(apart, "management", "worker-1") == "silence"
    await link.mend("worker-1")
    await link.mend("worker-1")
    assert reach(apart, "management", "worker-1", 5) == "connected"


def started(command: list[str]) -> subprocess.Popen[str]:
    """A process to talk to."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_an_open_connection_falls_silent_and_goes_on(apart: Rig) -> None:
    """What was sent into the cut arrives afterwards: TCP sends it again."""
    network = apart.network
    assert isinstance(network, Namespaces)
    server = (
        "import socket,sys\n"
        "with socket.create_server((sys.argv[1], 4001)) as s:\n"
        "    print('up', flush=True)\n"
        "    c, _ = s.accept()\n"
        "    while d := c.recv(100): c.sendall(b're:' + d)\n"
    )
    client = (
        "import socket,sys\n"
        "c = socket.create_connection((sys.argv[1], 4001), timeout=20)\n"
        "for line in sys.stdin:\n"
        "    c.sendall(line.strip().encode()); print(c.recv(100).decode(), flush=True)\n"
    )
    address = network.host("worker-1")
    there = [*where(apart, "worker-1"), server, address]
    here = [*where(apart, "management"), client, address]
    with started(there) as far:
        assert far.stdout is not None
        far.stdout.readline()
        with started(here) as near:
            assert near.stdin is not None
            assert near.stdout is not None
            near.stdin.write("one\n")
            near.stdin.flush()
            assert near.stdout.readline() == "re:one\n"
            os.set_blocking(near.stdout.fileno(), False)
            async with partition(RoutedLink(apart), "worker-1"):
                near.stdin.write("two\n")
                near.stdin.flush()
                await asyncio.sleep(QUIET)  # how long nothing may come
                assert near.stdout.readline() == ""
                assert near.poll() is None
            assert wait_until(lambda: near.stdout.readline() == "re:two\n", 20)
            near.stdin.close()


async def test_a_frozen_server_keeps_connections_and_answers_nothing(apart: Rig) -> None:
    """SIGSTOP: the kernel still accepts, nobody answers, and it goes on afterwards."""
    name = "worker-1/kube-apiserver"
    process = apart.process(name)
    assert process is not None
    async with frozen(apart, name) as pids:
        assert process.pid in pids
        assert wait_until(lambda: state_of(process.pid) == "T", 5)
        assert reach(apart, "management", "worker-1", 5) == "connected"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_ready(apart), QUIET)
    assert process.running
    assert wait_until(lambda: says_ready(apart), 30)


def says_ready(rig: Rig) -> bool:
    """Whether worker-1 is. One that has just gone on may say for a moment that its etcd is not."""
    try:
        return rig.kubectl("worker-1", "get", "--raw=/readyz") == "ok"
    except RigError:
        return False


async def _ready(rig: Rig) -> None:
    host, _, port = (
        rig.status().clusters["worker-1"].api_url.removeprefix("https://").partition(":")
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"GET / HTTP/1.0\r\n\r\n")  # not TLS: any answer at all is one
        await reader.read(1)
    finally:
        writer.close()


async def test_a_dead_component_is_gone_and_comes_back(apart: Rig) -> None:
    """SIGKILL: connections are refused, which is another fault than a cut."""
    name = "worker-1/kube-apiserver"
    before = apart.process(name)
    assert before is not None
    async with dead(apart, name):
        assert wait_until(lambda: not before.running, 5)
        assert reach(apart, "management", "worker-1", 5).startswith("told:")
    after = apart.process(name)
    assert after is not None
    assert after.running
    assert after.pid != before.pid
    assert apart.kubectl("worker-1", "get", "--raw=/readyz") == "ok"


def state_of(pid: int) -> str:
    """State of a process as the kernel shows it."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


@asynccontextmanager
async def redis_on(rig: Rig) -> AsyncIterator[Stack]:
    """The Redis of the stack, alone."""
    stack = Stack(rig)
    stack.start_redis()
    try:
        yield stack
    finally:
        rig.stop_process("redis")


async def test_redis_forgets_is_full_and_is_read_only(apart: Rig) -> None:
    """FLUSHALL, OOM and READONLY, each as the server says it, and each mended."""
    async with redis_on(apart) as stack:
        assert await store.command(stack, "SET", "a", "1") == "OK"
        assert await store.keys(stack) == 1
        async with store.full(stack):
            with pytest.raises(ValueError, match="OOM"):
                await store.command(stack, "SET", "b", "1")
            assert await store.command(stack, "GET", "a") == "1"
        async with store.read_only(stack):
            with pytest.raises(ValueError, match="READONLY"):
                await store.command(stack, "SET", "b", "1")
        assert await store.command(stack, "SET", "b", "1") == "OK"
        await store.flush(stack)
        assert await store.keys(stack) == 0


def test_what_a_crash_left_behind_is_removed(tmp_path: Path) -> None:
    """Namespaces are found by the folder of the rig alone, without its state file."""
    if why := why_not():
        pytest.skip(f"no network namespaces here: {why}")
    network = Namespaces(tmp_path, "198.19.255.0/24", ["management", "worker-1"])
    network.up()
    assert len(existing(tag(tmp_path))) == 3
    network.up()  # nothing is missing
    remove(tmp_path)
    assert existing(tag(tmp_path)) == []


def test_ports_of_this_machine_are_not_taken_from_the_namespaces(apart: Rig) -> None:
    """A server of the rig listens in its namespace only."""
    port = int(apart.status().clusters["worker-1"].api_url.rpartition(":")[2])
    with socket.socket() as probe:
        probe.settimeout(1)
        assert probe.connect_ex(("127.0.0.1", port)) != 0
