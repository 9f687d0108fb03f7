"""Appending, reading, moving, listing, searching: Clew beside its peers on one machine."""
