"""Snapshots of directory trees: scanned, stored as objects, restored, compared, collected."""
