"""The demonstration: what it submits, how it counts starts, and how it judges the outcome."""
