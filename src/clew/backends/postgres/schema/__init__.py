"""The tables of a store: how they are made and migrated, and whether other people's code hides in them."""
