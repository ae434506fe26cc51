"""A whole manager whose queue is in a real Valkey that fails in all the ways that it can.

Each time: Jobs can be submitted, what runs is not touched, nothing is dispatched and `problem` says
why and what to do; then it goes on by itself, with every job once and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from federation.core.queueing import IndexUnavailable
from federation.edge.redis_index import RedisIndex
from federation.edge.resources import WORKLOAD_PRIORITY_CLASSES
from tests.contract.valkey import Server
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import custom

Fault = Callable[[Server], AbstractContextManager[object]]

ORDER = ("d", "b", "c", "a")
"""The waiting jobs, first to last; a and b are submitted before the fault."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is asked again, and given up, sooner than in earnest."""
    monkeypatch.setattr("manager.dispatcher.REDIS_PAUSE_S", 0.02)
    monkeypatch.setattr("federation.edge.redis_index.ANSWER_S", 0.5)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for each test: they leave nothing of it as it was."""
    found = Server(tmp_path_factory.mktemp("v"))
    found.start()
    yield found
    found.stop()


class Line:
    """One GPU, a job `runs` that has it, and others behind it that fit one after the other."""

    def __init__(self, url: str) -> None:
        self.world = Federation("w", quota=1)
        self.world.index = self.index = RedisIndex(url)  # type: ignore[assignment]
        for place, name in enumerate(reversed(ORDER)):
            body = custom("WorkloadPriorityClass", name, {})
            del body["spec"]
            self.world.home.create(WORKLOAD_PRIORITY_CLASSES, {**body, "value": place})

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[Federation]:
        """`runs` runs, a and b wait."""
        world = self.world
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.index.aclose)
            manager = await stack.enter_async_context(world.running())
            world.submit("runs")
            world.start(await world.offered("runs"), "runs")
            await until(lambda: world.record("runs").admitted, "it runs")
            self._submit("a", "b")
            await until(lambda: len(manager.scheduler.items) == 2 and self.at_rest, "two wait")
            self.fills = manager.dispatcher.fills
            yield world

    def _submit(self, *names: str) -> None:
        for name in names:
            self.world.submit(name, of=name)

    @property
    def at_rest(self) -> bool:
        """Whether all have been tried, and no answer of the index is waited for."""
        scheduler, dispatcher = self.world.manager.scheduler, self.world.manager.dispatcher
        return not scheduler.ready and scheduler.due() is None and dispatcher._asked_at is None

    async def submit_the_rest(self) -> None:
        """They get their Workloads whatever the index does."""
        self._submit("c", "d")
        await until(lambda: len(self.world.manager.scheduler.items) == 4, "four wait")
        await until(lambda: all(self.world.record(name) for name in ORDER), "they are on record")

    async def in_order(self) -> None:
        """The running job was left alone and ends; the others follow, each once."""
        world, ahead = self.world, "runs"
        assert world.copy("runs")[1]["metadata"]["annotations"]["fedq.io/attempt"] == "1"  # type: ignore[index]
        for name in ORDER:
            await until(lambda: self.at_rest, "all have been tried")
            world.workers["w"].end(ahead)
            worker = await world.offered(name)
            assert [other for other in ORDER if world.copy(other)] == [name]
            world.start(worker, name)
            await until(lambda name=name: world.record(name).admitted, f"{name} runs")  # type: ignore[misc]
            world.report("w", 4)
            ahead = name
        assert [world.record(name).attempt for name in ORDER] == [1, 1, 1, 1]
        assert world.manager.scheduler.items == {}


@contextmanager
def refused(server: Server) -> Iterator[None]:
    """Stopped, and started again with nothing in it."""
    server.stop()
    yield
    server.start()


@contextmanager
def full(server: Server) -> Iterator[None]:
    """It has as much as it may have."""
    server.configure(maxmemory=1)
    yield
    server.configure(maxmemory=0)


@contextmanager
def read_only(server: Server) -> Iterator[None]:
    """Made a replica, of nothing that can be reached."""
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
    yield
    with server.client() as client:
        client.replicaof("NO", "ONE")


@contextmanager
def no_disk(server: Server) -> Iterator[None]:
    """It is set to keep files, and the folder for them is gone."""
    shutil.rmtree(server.data)
    server.configure(save="3600 1")
    with server.client() as client:
        client.bgsave()
        while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
            time.sleep(0.01)  # it forks, and says nothing when it is done
    yield
    server.configure(save="")


@contextmanager
def loading(server: Server) -> Iterator[None]:
    """Restarted with a file that it reads slowly: an index of some time ago."""
    with server.client() as client:
        client.mset({f"else:{n}": n for n in range(2000)})
        client.save()
    server.stop()
    slow = {"key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"}
    starting = threading.Thread(target=server.start, kwargs=slow)  # until it has read all
    starting.start()
    yield
    server.configure(key_load_delay=0)
    starting.join()


@contextmanager
def hanging(server: Server) -> Iterator[None]:
    """It takes what is sent and says nothing."""
    with server.frozen():
        yield


@contextmanager
def password(server: Server) -> Iterator[None]:
    """Somebody set one."""
    server.configure(requirepass="secret")
    with server.client(password="secret") as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield
    with server.client(password="secret") as client:
        client.config_set("requirepass", "")


@contextmanager
def not_allowed(server: Server) -> Iterator[None]:
    """The user may not call functions."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-fcall")
    yield
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "+fcall")


LASTING: dict[str, tuple[Fault, str, str]] = {
    "connection refused": (refused, "cannot be reached", "start it"),
    "full": (full, "is full", "raise its maxmemory"),
    "read-only replica": (read_only, "takes no writes", "lead to the primary"),
    "no room on its disk": (no_disk, "cannot write to its disk", "give it room"),
    "hangs": (hanging, "does not answer in time", "stopped or cut off"),
    "password": (password, "does not accept the credentials", "user and password"),
    "permissions": (not_allowed, "does not allow", "FUNCTION"),
}


@pytest.mark.parametrize("name", LASTING)
async def test_while_it_lasts(name: str, server: Server) -> None:
    """Said until it is over; then dispatch goes on by itself."""
    fault, what, todo = LASTING[name]
    line = Line(server.url)
    async with line.standing() as world:
        manager = world.manager
        with fault(server):
            await line.submit_the_rest()
            await until(lambda: what in manager.problem(), f"{what}: {manager.problem()}")
            assert todo in manager.problem()
            assert manager.status()["index"]["problem"] == manager.problem()
            assert [other for other in ORDER if world.copy(other)] == []
        await until(lambda: not manager.problem(), "it goes on")
        await line.in_order()


async def test_loading(server: Server) -> None:
    """It has an older index when it is done: filled anew."""
    line = Line(server.url)
    async with line.standing() as world:
        manager = world.manager
        with loading(server):
            await line.submit_the_rest()
            await until(lambda: "is reading its file" in manager.problem(), "it says so")
        await until(lambda: not manager.problem(), "it goes on")
        await line.in_order()


@contextmanager
def flushed(server: Server) -> Iterator[None]:
    """FLUSHALL."""
    server.flush()
    yield


@contextmanager
def no_functions(server: Server) -> Iterator[None]:
    """FUNCTION FLUSH."""
    with server.client() as client:
        client.function_flush()
    yield


@contextmanager
def emptied(server: Server) -> Iterator[None]:
    """Lost its disk and was restarted."""
    server.stop()
    server.start()
    yield


@contextmanager
def reset(server: Server) -> Iterator[None]:
    """All connections broken: what was under way may have got through."""
    server.send_away()
    yield


@contextmanager
def another_owner(server: Server) -> Iterator[None]:
    """Another manager filled it, and its jobs are none of ours."""
    with server.client() as client:
        (meta,) = client.scan_iter("*:meta")
        client.hset(meta, "incarnation", "another", items=["owner", "elsewhere/1"])
    yield


PASSING = {
    "flushed": flushed,
    "functions gone": no_functions,
    "restarted empty": emptied,
    "connections reset": reset,
    "another owner": another_owner,
}


@pytest.mark.parametrize("name", PASSING)
async def test_what_passes(name: str, server: Server) -> None:
    """Filled again before anybody can look; nothing is lost, nothing is done twice."""
    line = Line(server.url)
    async with line.standing():
        with PASSING[name](server):
            await line.submit_the_rest()
            await line.in_order()
        if name != "connections reset":
            assert line.world.manager.dispatcher.fills == line.fills + 1


async def test_a_replica_that_lagged_becomes_the_primary(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It lacks changes that were confirmed, and would take new ones as if nothing had been: the
    count of changes tells.
    """
    folder = tmp_path_factory.mktemp("v")
    primary = Server(folder / "a", listens=True)
    replica = Server(folder / "b")
    address = folder / "redis.sock"
    for one in (primary, replica):
        one.data.mkdir(parents=True)
        one.start()
    address.symlink_to(primary.socket)
    line = Line(f"unix://{address}")
    try:
        async with line.standing() as world:
            with replica.client() as client, primary.client() as other:
                client.replicaof("127.0.0.1", primary.port)
                await until(lambda: _in_step(client, other), "it has all")
                client.replicaof("NO", "ONE")  # from here on it lags
            await line.submit_the_rest()
            await until(lambda: line.at_rest and not world.manager.problem(), "they wait")
            primary.stop()
            address.unlink()
            address.symlink_to(replica.socket)
            await line.in_order()
            assert world.manager.dispatcher.fills > line.fills
    finally:
        primary.stop()
        replica.stop()


def _in_step(replica: redis.Redis, primary: redis.Redis) -> bool:
    found, wanted = replica.info("replication"), primary.info("replication")
    up = found.get("master_link_status") == "up"
    return bool(up and found["slave_repl_offset"] == wanted["master_repl_offset"])


# Slow


class Delay:
    """Passes on what is said between a client and a server, each answer so many seconds late."""

    def __init__(self, server: Server, at: Path) -> None:
        self.seconds = 0.0
        self.answers = 0
        self.url = f"unix://{at}"
        self._server, self._at = server, at
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        listening = await asyncio.start_unix_server(self._accept, self._at)
        try:
            yield
        finally:
            listening.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_unix_connection(str(self._server.socket))
        for pipe in (self._pass(reader, there, late=False), self._pass(back, writer, late=True)):
            self._tasks.add(asyncio.create_task(pipe))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool
    ) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(65536):
                if late:
                    self.answers += 1
                    await asyncio.sleep(self.seconds)
                writer.write(data)
                await writer.drain()


async def test_slow(
    server: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers 1.2 s late: dispatch goes on, says that it waits, and neither spins nor keeps the
    rest of the manager from its work.
    """
    monkeypatch.setattr("federation.edge.redis_index.ANSWER_S", 10.0)
    delay = Delay(server, tmp_path_factory.mktemp("d") / "d")
    line = Line(delay.url)
    async with delay.passing(), line.standing() as world:
        manager, before = world.manager, delay.answers
        delay.seconds = 1.2
        world.submit("d", of="d")
        await until(lambda: "has not answered for 1 s" in manager.problem(), "it says so")
        assert "overloaded" in manager.problem()
        world.workers["w"].end("runs")
        stalled = 0.0
        while not world.copy("d"):
            last = time.monotonic()
            await asyncio.sleep(0.01)
            stalled = max(stalled, time.monotonic() - last)
        assert stalled < 0.5
        assert delay.answers - before < 12
        assert manager.dispatcher.slowest > 1.0
        assert manager.dispatcher.fills == line.fills
        delay.seconds = 0.0
        await until(lambda: not manager.problem(), "well again")


# Others in the same Redis


async def test_two_managers_that_fight(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not fill the index without a pause, says who the other one is, and dispatches each
    job once; when the other has gone all is well.
    """
    monkeypatch.setattr("manager.dispatcher.AUDIT_S", 0.01)
    line = Line(server.url)
    async with line.standing() as world:
        manager, other = world.manager, RedisIndex(server.url)
        fills, over = 0, False

        async def fight() -> None:
            nonlocal fills
            while not over:
                await other.fill(())
                fills += 1
                await asyncio.sleep(0.005)

        fighting = asyncio.create_task(fight())
        try:
            await line.submit_the_rest()
            await until(lambda: "was filled by" in manager.problem(), "it says so")
            await until(lambda: fills > 200, "a while")
        finally:
            over = True
            await fighting
            await other.aclose()
        assert 0 < manager.dispatcher.fills - line.fills < fills / 2
        await until(lambda: not manager.problem(), "it goes on")
        await line.in_order()


async def test_a_library_of_that_name(server: Server) -> None:
    """Somebody else's functions are neither called nor replaced."""
    text = (
        "#!lua name=fedq\n"
        "redis.register_function('fedq_enqueue', function() return 'not yours' end)"
    )
    with server.client() as client:
        client.function_load(text)
    line = Line(server.url)
    async with line.standing():
        await line.submit_the_rest()
        await line.in_order()
    with server.client() as client:
        assert client.fcall("fedq_enqueue", 0) == b"not yours"


async def test_a_server_that_may_drop_the_queue(server: Server) -> None:
    """Its settings are shown as a danger; keys with a time to live are none of ours."""
    index = RedisIndex(server.url)
    for policy, danger in (("allkeys-lru", True), ("volatile-lru", False), ("noeviction", False)):
        server.configure(maxmemory_policy=policy)
        await index.fill(())
        assert (policy in index.caution, bool(index.caution)) == (danger, danger)
    await index.aclose()


async def test_tls_with_a_server_that_has_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It hangs; what to look at is said, and the password is not."""
    server = Server(tmp_path_factory.mktemp("v"), listens=True)
    server.start()
    index = RedisIndex(f"rediss://:secret@127.0.0.1:{server.port}")
    try:
        with pytest.raises(IndexUnavailable, match="whether it speaks TLS") as found:
            await index.fill(())
        assert "secret" not in str(found.value)
    finally:
        await index.aclose()
        server.stop()


def _certificate(folder: Path) -> ssl.SSLContext:
    """Of a server, signed by itself."""
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=r", *files]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context


async def test_tls_that_nobody_vouches_for(tmp_path: Path) -> None:
    """A certificate of its own: said as what it is, with the setting that names its CA."""
    context = _certificate(tmp_path)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as listening:
        port = listening.sockets[0].getsockname()[1]
        for scheme, words_of in (("rediss", "TLS failed.+ssl_ca_certs"), ("redis", "rediss://")):
            index = RedisIndex(f"{scheme}://127.0.0.1:{port}")
            with pytest.raises(IndexUnavailable, match=words_of):
                await index.fill(())
            await index.aclose()


# What is taken out of the index behind our back


def _queue(client: redis.Redis, kind: str) -> Any:
    return next(client.scan_iter(f"*:{kind}:cq*"))


@pytest.mark.parametrize("kind", ["waiting", "line", "jobs", "blocked", "everything"])
async def test_entries_deleted_by_hand(
    kind: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the audit, or when they are missed; put back, and every job gets its turn."""
    monkeypatch.setattr("manager.dispatcher.AUDIT_S", 0.1)
    line = Line(server.url)
    async with line.standing() as world:
        await line.submit_the_rest()
        await until(lambda: line.at_rest, "they wait")
        with server.client() as client:
            members = client.zrange(_queue(client, "waiting"), 0, -1)
            if kind == "jobs":
                (jobs,) = client.scan_iter("*:jobs")
                client.delete(jobs)
            elif kind == "everything":
                keys = [key for key in client.scan_iter() if not key.endswith(b":meta")]
                client.delete(*keys)
            elif kind == "waiting":
                client.zrem(_queue(client, kind), members[1])
            elif kind == "blocked":  # none of them is ready, and all would be for ever
                client.delete(_queue(client, kind))
            else:
                for name in client.scan_iter("*:line:cq:*"):
                    client.zrem(name, members[1])
        if kind != "jobs":  # nothing is missing until one of them is wanted
            await until(lambda: world.manager.dispatcher.fills > line.fills, "filled again")
        await line.in_order()
