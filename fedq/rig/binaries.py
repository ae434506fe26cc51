"""Finding the programs of a rig: given assets, PATH, the per-user cache, else a build.

A program found in a place that others fill ($KUBEBUILDER_ASSETS, PATH) is asked for its
version. One of another minor version is told to the user and passed over, as the rig's flags
and the policies that are tested on it are those of one minor version.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from fedq.rig.build import build
from fedq.rig.paths import binary_cache
from fedq.rig.tools import GROUPS, group_of, is_executable, version_of

Progress = Callable[[str], None]


def find(tool: str, tell: Progress) -> Path | None:
    """The program in the first place that has a fitting one; None when no place has."""
    for place, path in _candidates(tool):
        wanted = group_of(tool).minor
        version = version_of(path)
        if version is not None and version.rpartition(".")[0] == wanted:
            return path
        said = f"is version {version}" if version else "does not tell its version"
        tell(f"{tool} in {place} ({path}) {said}, {wanted} is needed: looking further")
    cached = binary_cache() / group_of(tool).folder / tool
    return cached if is_executable(cached) else None


def find_or_build(tools: Iterable[str], tell: Progress = print) -> dict[str, Path]:
    """Program → path for all of `tools`; what no place has is built into the cache.

    Raises RigError when something must be built and there is no Go toolchain, or a build fails.
    """
    found: dict[str, Path] = {}
    missing: set[str] = set()
    for tool in tools:
        path = find(tool, tell)
        if path is None:
            missing.add(tool)
        else:
            found[tool] = path
    for group in GROUPS:
        if wanted := [tool for tool in group.packages if tool in missing]:
            build(group, wanted, binary_cache(), tell)
            found |= {tool: binary_cache() / group.folder / tool for tool in wanted}
    return found


def _candidates(tool: str) -> Iterable[tuple[str, Path]]:
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        path = Path(assets) / tool
        if is_executable(path):
            yield "$KUBEBUILDER_ASSETS", path
    if on_path := shutil.which(tool):
        yield "PATH", Path(on_path)
