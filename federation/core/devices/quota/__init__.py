"""What shares of cards count against quota, per flavor and per namespace."""
