"""Streams that lose nothing: what happens in sessions, as server-sent events. The log is the buffer."""
