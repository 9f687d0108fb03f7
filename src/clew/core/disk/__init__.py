"""The user's own disk: open without being led astray, kinds of file systems, watched directories."""
