"""A session of another program, brought into a store: once, and the next time what is new."""
