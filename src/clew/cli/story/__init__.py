"""The story of `clew demo`."""
