"""Checks for what comes from a file or store that anybody may have written."""
