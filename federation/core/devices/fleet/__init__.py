"""All hosts at once: where pods and gangs are placed best, and what of that is reported."""
