"""Sessions, entries and trees as Markdown, each at an address that clients can keep and follow."""
