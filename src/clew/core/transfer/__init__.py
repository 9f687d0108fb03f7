"""Stores and sessions on their way into another store: copy, backup, repair, session files."""
