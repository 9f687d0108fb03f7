"""Commands about agents on this machine: bring their sessions, follow them."""
