"""How two snapshots differ."""
