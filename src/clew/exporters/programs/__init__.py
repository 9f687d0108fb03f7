"""Sessions as the files of other agents."""
