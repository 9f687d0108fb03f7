"""From a store to files of other programs, and to our own format."""
