"""A rig without control planes, for faults that hit processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedq.rig.rig import Rig
from fedq.rig.state import Home, State


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Rig]:
    """Its clusters are names; what a test starts in it ends with the test."""
    home = Home(tmp_path / "rig")
    home.write(State(clusters={"management": {}, "worker-1": {}}))
    home.make_sockets()
    rig = Rig.load(home.path)
    try:
        yield rig
    finally:
        rig.down()
