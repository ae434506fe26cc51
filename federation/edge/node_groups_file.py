"""How cards are cut on which nodes, from a YAML file."""

from __future__ import annotations

from pathlib import Path

from federation.core.devices.inventory.node_groups import NodeGroup, decode
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendors import Vendors
from federation.edge.configuration_file import ConfigurationFileError
from federation.edge.documents import Document, documents


def node_groups(path: Path | None, vendors: Vendors) -> tuple[NodeGroup, ...]:
    """The groups of a file; none without one. Raises ConfigurationFileError."""
    if path is None:
        return ()
    try:
        (found,) = documents(path.read_text(encoding="utf-8-sig"))
        if not isinstance(found, Document) or not isinstance(found.body, dict):
            raise UndecodableError("it is no YAML mapping")
        return decode(found.body, vendors)
    except (OSError, ValueError) as error:
        raise ConfigurationFileError(
            f"the node groups in {path} cannot be read: {error}. Write one mapping with a list"
            " nodeGroups (`fedq lint -f FILE` shows the place)."
        ) from error
