"""Finding messages: the index, the query, the page of hits."""
