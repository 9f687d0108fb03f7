"""Clew against the limits of the machine and against its peers, in the same run.

`python -m benchmarks` runs every script and prints one table. Each script also runs alone:
`python -m benchmarks.sessions.turn --quick`.
"""
