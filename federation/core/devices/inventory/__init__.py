"""The cards of a node: from what it registers, from its capacity, or as node groups cut them."""
