"""Whether what a store holds is whole."""
