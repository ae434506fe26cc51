"""GPU nodes as HAMi's device plugin shows them: cards registered in an annotation, and slots."""

from __future__ import annotations

import json
from typing import Any

REGISTER = "hami.io/node-nvidia-register"
MODEL = "NVIDIA A100-SXM4-40GB"
MEMORY_MIB = 40960
SLOTS = 10


def cards(
    prefix: str,
    count: int = 8,
    *,
    model: str = MODEL,
    memory_mib: int = MEMORY_MIB,
    slots: int = SLOTS,
) -> list[dict[str, Any]]:
    """The registration of equal cards; like HAMi's own it leaves out what is zero."""
    return [
        {
            "id": f"GPU-{prefix}-{index}",
            **({"index": index} if index else {}),
            "count": slots,
            "devmem": memory_mib,
            "devcore": 100,
            "type": model,
            **({"numa": 1} if index >= count / 2 else {}),
            "mode": "hami-core",
            "health": True,
        }
        for index in range(count)
    ]


def register(node: dict[str, Any], registered: list[dict[str, Any]]) -> dict[str, Any]:
    """The node with these cards: the annotation, and as many nvidia.com/gpu as they have slots."""
    text = json.dumps(registered, separators=(",", ":"))
    annotations = {**node["metadata"].get("annotations", {}), REGISTER: text}
    slots = str(sum(card["count"] for card in registered))
    status = node["status"]
    amounts = {
        part: {**status[part], "nvidia.com/gpu": slots} for part in ("allocatable", "capacity")
    }
    return {
        **node,
        "metadata": {**node["metadata"], "annotations": annotations},
        "status": {**status, **amounts},
    }
