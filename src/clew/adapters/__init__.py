"""Clew as the storage of agent frameworks: one package for each, which imports its framework.

    from clew.adapters.langgraph import ClewSaver        # pip install '.[langgraph]'

An adapter uses the public surface of Clew only. It stores sessions like any others: they can be listed,
shown, searched, rewound, forked and exported.
"""
