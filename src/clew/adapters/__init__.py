"""Clew under the frameworks that people already use: one module for each, which imports its framework.

    from clew.adapters.langgraph import ClewSaver        # pip install 'clew[langgraph]'

An adapter uses the public surface of Clew only. What it stores is a session like any other: it can be listed,
shown, searched, rewound, forked and exported.
"""
