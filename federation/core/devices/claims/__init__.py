"""Dynamic Resource Allocation: what claims count, devices as cards, claims as holders."""
