"""SQLite: one file, any number of threads and processes."""

from clew.backends.sqlite.backend import SqliteBackend as SqliteBackend
