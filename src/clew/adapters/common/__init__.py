"""What all adapters need: sessions of a framework, its package, remembered histories, JSON text."""
