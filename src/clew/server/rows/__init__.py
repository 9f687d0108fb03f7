"""The door for `clew.open("https://…")`: the calls of the storage contract as requests (ADR 58).

Private to Clew: the API for people and other programs is that of `clew.server.routes`.
"""
