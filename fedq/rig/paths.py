"""Where the rig keeps things: state goes away with `fedq rig down`, the binary cache stays."""

from __future__ import annotations

import os
from pathlib import Path


def rig_home() -> Path:
    """State of the rig: `$FEDQ_RIG_HOME`, else a folder under the XDG state folder."""
    if chosen := os.environ.get("FEDQ_RIG_HOME"):
        return Path(chosen).expanduser().absolute()
    return _xdg("XDG_STATE_HOME", ".local/state") / "fedq" / "rig"


def binary_cache() -> Path:
    """Binaries built once per user: one folder `<group>-<version>` each."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "fedq" / "bin"


def _xdg(variable: str, default: str) -> Path:
    chosen = os.environ.get(variable, "")
    # The XDG base directory rules: a relative path is to be ignored.
    return Path(chosen) if chosen.startswith("/") else Path.home() / default
