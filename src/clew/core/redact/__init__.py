"""What a secret looks like, and what replaces it: in exports, and on the way into the store. Pure."""
