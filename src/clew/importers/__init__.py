"""From files of other programs, and from our own format, into a store."""
