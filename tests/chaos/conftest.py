"""The same system as the integration tests'."""

from tests.integration.conftest import agents, stack, team

__all__ = ["agents", "stack", "team"]
