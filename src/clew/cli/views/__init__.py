"""What commands tell people: a conversation, moves of a session, restores of files."""
