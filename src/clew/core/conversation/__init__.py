"""One session: its messages, marks and points in time."""
