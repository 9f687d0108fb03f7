"""Reading other programs' files: what several importers need."""
