"""Faults, each with a test that shows that it does what it says.

A fault is an async context manager that breaks something on entry and mends it on exit, also when
what happens inside fails.
"""
