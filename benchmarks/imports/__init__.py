"""Reading the files of other agents."""
