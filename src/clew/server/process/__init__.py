"""Running the server: sockets, the limits of a connection, signals, the log, the numbers, several
processes."""
