"""Kubeconfigs in files: which paths are read, and how changes are heard of."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from federation.edge import file_watch
from federation.edge.errors import ConfigError
from federation.edge.file_watch import FileWatch
from federation.edge.kubeconfig_file import read_kubeconfig


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory, with a kubeconfig in it and a secret file beside it."""
    (tmp_path / "secret").write_text("secret")
    directory = tmp_path / "kubeconfigs"
    (directory / "team").mkdir(parents=True)
    (directory / "a").write_bytes(b"kubeconfig of a")
    (directory / "team" / "b").write_bytes(b"kubeconfig of b")
    return directory


def test_files_below_the_directory(home: Path) -> None:
    """At any depth, and through links that stay inside."""
    (home / "..data").symlink_to("team")
    (home / "c").symlink_to("..data/b")
    assert read_kubeconfig(f"{home}/a", home, "w") == b"kubeconfig of a"
    assert read_kubeconfig(f"{home}/team/b", home, "w") == b"kubeconfig of b"
    assert read_kubeconfig(f"{home}/c", home, "w") == b"kubeconfig of b"


BAD: dict[str, tuple[str, str]] = {
    "relative": ("a", "relative"),
    "dots": ("{home}/team/../a", "'..'"),
    "dots that leave": ("{home}/../secret", "'..'"),
    "elsewhere": ("{root}/secret", "not below"),
    "the same beginning of a name": ("{home}-other/a", "not below"),
    "the directory itself": ("{home}", "not below"),
    "a directory": ("{home}/team", "no regular file"),
    "missing": ("{home}/gone", "No such file"),
    "a link that leaves": ("{home}/out", "leads out of"),
    "a directory that is a link": ("{home}/up/secret", "leads out of"),
    "a link in a circle": ("{home}/circle", "cannot be read"),
    "a pipe": ("{home}/pipe", "no regular file"),
    "a zero": ("{home}/a\0b", "NUL"),
}


@pytest.mark.parametrize(("location", "why"), BAD.values(), ids=BAD)
def test_paths_that_are_refused(home: Path, location: str, why: str) -> None:
    """As BadKubeConfig, with what is wrong; none hangs."""
    (home / "out").symlink_to("../secret")
    (home / "up").symlink_to("..")
    (home / "circle").symlink_to("circle")
    os.mkfifo(home / "pipe")
    with pytest.raises(ConfigError, match=why) as caught:
        read_kubeconfig(location.format(home=home, root=home.parent), home, "w")
    assert caught.value.reason == "BadKubeConfig"
    assert "kubeconfig of w" in str(caught.value)


class Heard:
    """Counts what is told."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._more.set()

    async def more(self) -> None:
        self._more.clear()
        async with asyncio.timeout(5):
            await self._more.wait()


@contextlib.asynccontextmanager
async def watching(*paths: Path) -> AsyncIterator[Heard]:
    heard = Heard()
    watch = FileWatch(heard)
    watch.follow(paths)
    task = asyncio.create_task(watch.run())
    try:
        await heard.more()  # it begins with a look
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _swap(home: Path) -> None:
    (home / "new").write_text("x")
    (home / "new").rename(home / "a")


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda home: (home / "a").write_text("new"),
    "renamed over": _swap,
    "removed": lambda home: (home / "a").unlink(),
    "renamed away": lambda home: (home / "a").rename(home / "z"),
    "another file of the directory": lambda home: (home / "d").write_text("new"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_changes_are_heard_of(home: Path, change: Callable[[Path], object]) -> None:
    """Each kind of change."""
    async with watching(home / "a") as heard:
        change(home)
        await heard.more()


async def test_a_mounted_secret_is_swapped(home: Path) -> None:
    """The link to the directory of its data is renamed over."""
    (home / "..1").mkdir()
    (home / "..2").mkdir()
    (home / "..data").symlink_to("..1")
    (home / "kc").symlink_to("..data/kc")
    async with watching(home / "kc") as heard:
        (home / "..new").symlink_to("..2")
        (home / "..new").rename(home / "..data")
        await heard.more()
        (home / "..2" / "kc").write_text("x")  # it is watched where it is now
        await heard.more()


async def test_a_directory_that_comes_later(tmp_path: Path) -> None:
    """And a file in it."""
    async with watching(tmp_path / "x" / "y" / "kc") as heard:
        (tmp_path / "x" / "y").mkdir(parents=True)
        await heard.more()
        (tmp_path / "x" / "y" / "kc").write_text("x")
        await heard.more()


async def test_many_changes_are_told_together(home: Path) -> None:
    """What comes within 100 ms."""
    async with watching(home / "a") as heard:
        before = heard.count
        for number in range(200):
            (home / "a").write_text(f"{number}")
        await heard.more()
        assert heard.count == before + 1


async def test_without_inotify(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks by itself."""
    monkeypatch.setattr(file_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(file_watch.sys, "platform", "other")
    async with watching(home / "a") as heard:
        (home / "a").write_text("something else")
        await heard.more()


async def test_a_path_that_nobody_can_look_into(home: Path) -> None:
    """Here a name that is too long, as well a directory without rights: the others are followed."""
    async with watching(home / ("x" * 300) / "y" / "kc", home / "a") as heard:
        (home / "a").write_text("new")
        await heard.more()
