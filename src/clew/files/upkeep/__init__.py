"""Collect, merge, check, copy and erase the objects of a store."""
