"""Commands that count: sessions, messages, tokens, money."""
