"""What runs beside a conversation: events, and model calls with their tokens and money."""
