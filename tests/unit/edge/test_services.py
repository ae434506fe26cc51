"""Tasks that must not end."""

from __future__ import annotations

import asyncio

import pytest

from federation.edge.errors import NotFound
from federation.edge.services import ServiceEnded, guard, run_program, vital


async def test_guard_turns_a_quiet_return_into_an_error() -> None:
    """A service that ends is a bug."""

    async def quiet() -> None: ...

    with pytest.raises(ServiceEnded, match="watcher"):
        await guard(quiet(), "watcher")


async def test_guard_lets_crashes_and_cancellation_pass() -> None:
    """The first is logged."""

    async def crash() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await guard(crash(), "watcher")
    task = asyncio.create_task(guard(asyncio.Event().wait(), "watcher"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_vital_service_that_crashes_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if the rest hangs; a cancellation is no crash."""
    ended: list[bool] = []
    monkeypatch.setattr("federation.edge.services.exit_soon", lambda: ended.append(True))
    task = asyncio.create_task(vital(asyncio.Event().wait(), "agent"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == []

    async def crash() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await vital(crash(), "agent")
    assert ended == [True]


def test_a_program_that_cannot_go_on_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Also from within groups of tasks; anything else is a bug, and keeps its traceback."""

    async def nested(error: Exception) -> None:
        async def fail() -> None:
            raise error

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    assert run_program(nested(NotFound("no such thing")), "manager") == 1
    assert "no such thing" in capsys.readouterr().out
    with pytest.raises(ExceptionGroup):
        run_program(nested(KeyError("x")), "manager")
