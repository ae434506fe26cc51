"""One module per command: options in, text and exit code out. What they know is in `fedq`."""
