"""The shipped commands, as processes."""
