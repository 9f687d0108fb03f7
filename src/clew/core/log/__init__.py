"""What storage keeps, as plain values, and the arithmetic of paths. Pure: no I/O, no clock."""
