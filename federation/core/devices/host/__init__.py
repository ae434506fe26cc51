"""Whether and how a pod fits on the cards of one host, exactly."""
