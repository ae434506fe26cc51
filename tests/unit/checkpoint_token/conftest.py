"""Stores of both kinds, empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from federation.checkpoint_token import Token, open_store
from tests.fakes.object_server import ObjectServer

Attempt = Callable[[int], Token]


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.fixture(params=["folder", "objects"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for jobs."""
    if request.param == "folder":
        return str(tmp_path / "store")
    return f"{request.getfixturevalue('server').url}/bucket/some prefix".replace(" ", "%20")


@pytest.fixture
def attempt(where: str) -> Attempt:
    """An attempt of the job, by its number."""
    return lambda number: Token(open_store(where, "job", number, {}), number)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """A file with a text in it."""

    def write(text: str) -> Path:
        path = tmp_path / "file"
        path.write_text(text)
        return path

    return write
