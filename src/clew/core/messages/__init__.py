"""What a message is, whatever its provider: checked, encoded, read, paired, repaired, searched. Pure."""
