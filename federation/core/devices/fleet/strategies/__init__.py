"""Ways to choose host and cards among those that fit, each a small module with one interface.

This package imports none of them; `strategies.named` knows their names.
"""
