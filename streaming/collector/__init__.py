"""The collector: asks every broker for its replicas at a fixed rate, and writes observations.

``brokers`` owns the connections. Each source knows one kind of request: ``metadata``, ``configs``,
``replica_status``, ``offsets``, ``log_dirs``, ``timestamps``, ``epochs`` and ``jmx``; each reports
its own ``problem``. ``cycle`` combines them, and ``observation`` encodes the result.
"""
