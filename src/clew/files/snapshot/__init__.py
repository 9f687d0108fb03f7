"""From a directory on disk to a snapshot."""
