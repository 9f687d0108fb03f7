"""JSONL: plain files, one log a session, with an index that can be deleted at any time."""

from clew.backends.jsonl.backend import JsonlBackend as JsonlBackend
