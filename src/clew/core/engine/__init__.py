"""How work reaches a backend: group commit, transactions, clocks."""
