"""A store in a folder, local or on NFS.

Each state of the token is a file of its own, `token.<number>`, made by link(2) from a complete
one: that fails if the number is taken, whoever is asked, so the highest number counts, and each was
made by somebody who knew the one before. No lock is held that a machine that stands still would
keep, or lose without knowing. Old states stay: a number that is free again could be taken by
somebody who has read the one before long ago. (A state is a few hundred bytes.)

    <folder>/<job>/token.000000001 …      <folder>/<job>/data/attempt-3/model.<random>
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from federation.checkpoint_token.errors import StoreError
from federation.checkpoint_token.token import State

PREFIX: Final = "token."
PAUSE: Final = 0.05
"""Seconds; NFS may show a file that is there a little later."""
PATIENCE: Final = 1200
"""How many pauses: a minute is the longest for which NFS keeps what it knows of a folder."""


class DirectoryStore:
    """The folder of one job; it is made when it is needed."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self._folder = folder
        self._data = folder / "data" / f"attempt-{attempt}"

    def read(self) -> tuple[State, int]:
        """See Store. The version is the number of the state, 0 for none."""
        with _told("read"):
            try:
                names = os.listdir(self._folder)
            except FileNotFoundError:
                return State(), 0
            numbers = [int(n[len(PREFIX) :]) for n in names if n.startswith(PREFIX)]
            number = max(numbers, default=0)
            # What a listing does not show yet is found by its name.
            while self._path(number + 1).exists():
                number += 1
            return (State.read(self._path(number).read_bytes()) if number else State()), number

    def swap(self, state: State, version: int) -> bool:
        """See Store."""
        with _told("write"):
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = self._folder / f".{uuid.uuid4().hex}"
            try:
                with fresh.open("xb") as stream:
                    stream.write(state.text())
                    stream.flush()
                    os.fsync(stream.fileno())
                made = self._link(fresh, self._path(version + 1))
            finally:
                fresh.unlink(missing_ok=True)
            _sync(self._folder)
        if not made:
            self._await(self._path(version + 1))
        return made

    def _link(self, fresh: Path, path: Path) -> bool:
        try:
            os.link(fresh, path)
        except FileExistsError:
            # Of a request that NFS has sent twice the second answer says that it exists.
            return fresh.stat().st_nlink == 2
        return True

    def _await(self, path: Path) -> None:
        """Until a file that exists is seen."""
        for _ in range(PATIENCE):
            if path.exists():
                return
            time.sleep(PAUSE)  # the cache of another kernel expires by time alone
        raise StoreError(f"{path} exists and cannot be seen")

    def put(self, name: str, source: Path) -> str:
        """See Store. The location is a path within the folder of the job."""
        with _told("write"):
            self._data.mkdir(parents=True, exist_ok=True)
            target = self._data / f"{name}.{uuid.uuid4().hex}"
            with source.open("rb") as given, target.open("xb") as stream:
                shutil.copyfileobj(given, stream, 1 << 20)
                stream.flush()
                os.fsync(stream.fileno())
            for folder in (self._data, self._data.parent, self._folder):
                _sync(folder)
        return str(target.relative_to(self._folder))

    def get(self, location: str, target: Path) -> None:
        """See Store."""
        with _told("read"):
            fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
            try:
                shutil.copyfile(self._folder / location, fresh)
                fresh.replace(target)
            finally:
                fresh.unlink(missing_ok=True)

    def drop(self, location: str) -> None:
        """See Store."""
        with _told("remove"):
            (self._folder / location).unlink(missing_ok=True)

    def check(self) -> None:
        """See Store: link(2) is atomic on every file system that has it; where it has not, the
        first change fails.
        """

    def _path(self, number: int) -> Path:
        return self._folder / f"{PREFIX}{number:09d}"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {verb} {error.filename or 'the store'}: {error.strerror}"
        ) from error
