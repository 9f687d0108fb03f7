"""What happens inside a transaction: functions of a backend's primitives, the same for every backend.

Each checks before it writes and may run again after a rollback (see clew.commit).
"""
