"""From limits and annotations to what a pod wants of cards: exact, or refused with the reason."""
