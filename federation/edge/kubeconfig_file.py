"""Kubeconfigs in files (`locationType: Path`): only below one directory, whatever the path says.

Who may write a MultiKueueCluster names the path, and that need not be somebody who may read every
file of the manager. So a path is absolute, has no `..`, and neither it nor a symbolic link in it
leads out of the directory (Kueue's rule for `/etc/multikueue/kubeconfigs`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from federation.api.names import ActiveReason
from federation.edge.errors import ConfigError
from federation.edge.kubeconfig import MAX_BYTES

DEFAULT_DIRECTORY = Path("/etc/multikueue/kubeconfigs")


def path_problem(location: str, directory: Path) -> str:
    """What is wrong with a path before anything is looked up; '' if nothing is."""
    path = PurePosixPath(location)
    if "\0" in location:
        return "it has a NUL byte in it"
    if not path.is_absolute():
        return "it is relative: write the absolute path"
    if ".." in path.parts:
        return "it contains '..': write the path without"
    if PurePosixPath(directory) not in path.parents:
        return f"it is not below {directory}: mount the kubeconfig there"
    return ""


def read_kubeconfig(location: str, directory: Path, cluster: str) -> bytes:
    """The content of the file. Raises ConfigError(BadKubeConfig) with what to do."""
    if problem := path_problem(location, directory):
        raise _bad(location, problem, cluster)
    try:
        found = Path(location).resolve(strict=True)
        home = directory.resolve(strict=True)
        if home not in found.parents:
            text = f"a symbolic link leads out of {directory}, to {found}: mount the file itself"
            raise _bad(location, text, cluster)
        return _read(found)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = error.strerror if isinstance(error, OSError) else "its links form a circle"
        text = f"it cannot be read ({why}): mount the kubeconfig there"
        raise _bad(location, text, cluster) from error


def _read(path: Path) -> bytes:
    """A regular file; what is too large is left to the parser, which says so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is no regular file")
        return os.read(descriptor, MAX_BYTES + 1)  # of a regular file all there is, up to this
    finally:
        os.close(descriptor)


def _bad(location: str, problem: str, cluster: str) -> ConfigError:
    return ConfigError(
        f"The kubeconfig of {cluster} is to be read from {location[:256]!r}, but {problem}.",
        reason=ActiveReason.BAD_KUBE_CONFIG.value,
        cluster=cluster,
    )
