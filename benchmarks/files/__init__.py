"""Snapshots and restores of directories beside git and restic, and the disk that all of it takes."""
