"""Hooks of other agents, which wake a watcher: put into the agents' own settings, and taken out again."""
