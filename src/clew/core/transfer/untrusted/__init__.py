"""Reading files and stores that are not trusted: every row, record and line is checked."""
