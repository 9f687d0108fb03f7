"""`clew demo`: a small agent's story, told by what it keeps in Clew."""
