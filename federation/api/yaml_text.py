"""YAML that every reader takes for what it is: `dump` and `dump_all`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import yaml

# Numbers to Kubernetes' readers (YAML 1.2 core schema, https://yaml.org/spec/1.2.2/#103-core-schema)
# which PyYAML (YAML 1.1) takes for text and would leave without quotes: 843e22, 1e3, 0o17.
_FLOAT: Final = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_OCTAL: Final = re.compile(r"^[-+]?0o[0-7]+$")


class _Dumper(yaml.SafeDumper):
    """Without anchors, which people and some tools cannot read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_multi_representer(StrEnum, lambda dumper, value: dumper.represent_str(str(value)))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", _OCTAL, list("-+0"))


def dump(value: Any) -> str:
    """One document, keys in the order given."""
    return dump_all([value])


def dump_all(documents: Iterable[Any]) -> str:
    """Several documents, keys in the order given."""
    return str(
        yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    )
