"""Who holds what of which card, in which state, and what is counted for it."""
