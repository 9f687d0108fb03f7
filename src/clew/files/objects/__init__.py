"""Objects of snapshots: their format, packs of them in a store, trees of them."""
