"""Manifests that people have, where they are at hand."""

from pathlib import Path

SEEDS = Path(__file__).parents[4] / "shared" / "seed-manifests"
