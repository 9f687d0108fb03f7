"""A store in memory: the reference for every other backend, and what tests and tutorials use."""

from clew.backends.memory.backend import MemoryBackend as MemoryBackend
from clew.backends.memory.reader import Tables as Tables
