"""A build: what Go is asked for, where the result goes, what a reader of the log sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedq.rig import build as building
from fedq.rig.buildprogress import BuildProgress
from fedq.rig.errors import RigError
from fedq.rig.toolchain import Go
from fedq.rig.tools import ETCD, KWOK, Group

FAKE_GO = """#!/bin/sh
echo "$@" | tr -d "\n" >> {log}; echo >> {log}
case "$1" in
list) printf 'stale dependency\\nbuild ID mismatch\\nnot in, but available in build cache\\n' ;;
build)
  while [ "$1" != -o ]; do shift; done
  echo example.org/one >&2
  [ -n "$FAKE_GO_FAILS" ] && {{ echo 'one.go:1: no such thing' >&2; exit 1; }}
  echo program > "$2{output}" ;;
esac
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake Go toolchain; the file holds the command lines that it saw."""
    log = tmp_path / "asked"
    go = tmp_path / "go"
    go.write_text(FAKE_GO.format(log=log, output="v3"))
    go.chmod(0o755)
    monkeypatch.setattr(building, "find_go", lambda: Go(go, "go1.26.0"))
    return log


def test_build_puts_the_program_into_the_cache_once(tmp_path: Path, asked: Path) -> None:
    """The second call finds it; go names etcd's program after the directory of its package."""
    cache = tmp_path / "cache"
    building.build(ETCD, ["etcd"], cache, print)
    building.build(ETCD, ["etcd"], cache, print)

    program = cache / "etcd-v3.6.14" / "etcd"
    assert program.read_text() == "program\n"
    assert program.stat().st_mode & 0o777 == 0o755
    lines = asked.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["list", "build"]
    assert "-trimpath" in lines[1]
    assert lines[1].endswith("go.etcd.io/etcd/server/v3")
    assert sorted(entry.name for entry in program.parent.iterdir()) == [".lock", "etcd"]


def test_failed_build_shows_the_compiler_and_leaves_nothing(
    tmp_path: Path, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Go complained of is in the error; the cache stays empty."""
    monkeypatch.setenv("FAKE_GO_FAILS", "1")

    with pytest.raises(RigError, match="no such thing"):
        building.build(KWOK, ["kwok"], tmp_path, print)
    assert not (tmp_path / "kwok-v0.8.0" / "kwok").exists()


@pytest.mark.parametrize("group", [ETCD, KWOK])
def test_each_group_has_its_module(group: Group) -> None:
    """go.mod names every program as a tool, and go.sum is there to check it."""
    text = (building.GOTOOLS / group.name / "go.mod").read_text()

    assert all(package in text for package in group.packages.values())
    assert (building.GOTOOLS / group.name / "go.sum").exists()


def test_progress_tells_packages_and_time_left() -> None:
    """A tenth of the packages in 6 s: 54 s are left. Compiler messages do not count."""
    progress = BuildProgress("etcd", 10, print)
    progress.advance("go: downloading example.org/m v1.0.0")
    progress.advance("example.org/m/one")

    assert progress.line(6.0) == "building etcd: 1 packages of 10, 6 s, about 54 s left"
    assert BuildProgress("etcd", 0, print).line(3.0) == "building etcd: 0 packages, 3 s"
