"""PostgreSQL beside a table written by hand, and with a million sessions."""
