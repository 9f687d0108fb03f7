"""Commands about the server: serve the store, and say who may come in."""
