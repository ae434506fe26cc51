"""Hear of changes in directories: inotify where there is one, else a look once a second.

A changed Secret that is mounted arrives as a rename of a symbolic link in its directory, and a
rename over a file is a change of the directory too, so directories are watched, never files. What
comes within 100 ms is told once.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

BATCH_S = 0.1
LOOK_S = 1.0
_CHANGES = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class FileWatch:
    """Calls `changed` after something happened to the paths given to `follow`."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._paths: frozenset[Path] = frozenset()
        self._news = asyncio.Event()
        self._descriptor = -1
        self._watched: dict[Path, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def follow(self, paths: Iterable[Path]) -> None:
        """Follow these files, there or not, instead of those before."""
        wanted = frozenset(paths)
        if wanted != self._paths:
            self._paths = wanted
            self._news.set()

    async def run(self) -> None:
        """Watch from when there is something to follow, until cancelled."""
        await self._news.wait()
        loop = asyncio.get_running_loop()
        if self._libc is not None:
            self._descriptor = self._libc.inotify_init1(_FLAGS)
        if self._descriptor < 0:
            log.warning("files.no_inotify", looks_every=LOOK_S)
            return await self._look()
        loop.add_reader(self._descriptor, self._drain)
        try:
            while True:
                await self._news.wait()
                await asyncio.sleep(BATCH_S)  # a change of a mounted Secret is many events
                self._news.clear()
                self._watch()
                self._changed()
        finally:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor, self._watched = -1, {}

    def _drain(self) -> None:
        try:
            while os.read(self._descriptor, 65536):
                pass
        except BlockingIOError:
            pass
        self._news.set()

    def _watch(self) -> None:
        """Watch the directories as they are now: one may have come, gone, or be another one."""
        assert self._libc is not None
        wanted = {found for path in self._paths for found in _directories(path)}
        for path in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._descriptor, self._watched.pop(path))
        for path in wanted:  # asked again for one that is watched, it gives the same number
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _CHANGES)
            if number >= 0:
                self._watched[path] = number

    async def _look(self) -> None:
        """Where nothing tells: compare what can be seen of the files."""
        known: object = None
        while True:
            seen = {path: _mark(path) for path in self._paths}
            if seen != known:
                known = seen
                self._changed()
            await asyncio.sleep(LOOK_S)  # looked at: nothing tells here


def _directories(path: Path) -> set[Path]:
    """Those in which a change may be one of the file: its own, that of where its links lead, and
    the lowest that exists if its own does not.
    """
    found = set()
    for place in (path, Path(os.path.realpath(path))):
        directory = place.parent
        # not Path.is_dir: it raises where a directory may not be looked into
        while not os.path.isdir(directory) and directory != directory.parent:
            directory = directory.parent
        found.add(directory)
    return found


def _mark(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
