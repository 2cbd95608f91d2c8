"""Asks the brokers everything the twin needs, and sends it as observations.

One cycle is one observation. ``brokers`` knows how to ask; ``topics``, ``offsets``, ``log_dirs``,
``timestamps`` and ``configs`` each know one question; ``cycle`` puts the answers together.
"""
