"""One importer a program: each is a `Reader` of `clew.importers.contract`."""
