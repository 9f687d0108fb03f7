"""The face of OpenAI's Conversations API under `/v1/conversations`, for clients that speak it.

A conversation is an ordinary session, and an item of it a message on the session's path.
"""
