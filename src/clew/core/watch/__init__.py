"""What changed in a store, by whatever process: notices, and the loop that follows them."""
