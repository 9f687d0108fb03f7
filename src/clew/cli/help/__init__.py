"""What there is to say of a command: on a terminal, and as man pages."""
