"""Which directories may have changed: notices of the system, and when they do not tell all."""
