"""From a snapshot to a directory on disk."""
