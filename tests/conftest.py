"""Shared by all tests: no test may leave a task behind, and one rig of real control planes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

if TYPE_CHECKING:
    from fedq.rig.rig import Rig

settings.register_profile("fedq", deadline=None)  # how busy a machine is decides no test
settings.load_profile("fedq")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the rig, and allow for the start of the control planes."""
    for item in items:
        if "rig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.rig)
        if item.get_closest_marker("rig") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A command or a program that a test runs in this process configures its log: for all."""
    known = structlog.get_config()
    yield
    structlog.configure(**known)


@pytest.fixture(autouse=True)
async def _no_leaked_tasks() -> AsyncIterator[None]:
    """Fail a test that ends while tasks it started still run."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)  # lets tasks that were cancelled last finish
    leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in leaked:
        task.cancel()
    if leaked:
        pytest.fail("leaked tasks: " + ", ".join(sorted(str(task) for task in leaked)))


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One management and two worker clusters of real control planes, up for the whole session.

    With FEDQ_TEST_RIG_HOME the rig of that folder is used and left up, which saves the start when
    tests are run again and again.
    """
    from fedq.rig.rig import Rig

    kept = os.environ.get("FEDQ_TEST_RIG_HOME")
    home = Path(kept) if kept else tmp_path_factory.mktemp("rig")
    found = Rig.load(home)
    try:
        found.up(workers=2)
        yield found
    finally:
        if not kept:
            found.down()
