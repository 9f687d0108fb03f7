"""What happens inside a transaction: the rest of it, until it has its own rooms."""
