"""Who may write to a session, and what became of a run."""
