"""A damaged store, read as far as it can be read."""
