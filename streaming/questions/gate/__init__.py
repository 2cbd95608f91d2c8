"""The gate: whether a broker may be restarted now, and the order of a roll of all.

They are no questions: ``kafka-twin gate`` waits for the verdict, which has exit codes.
"""
