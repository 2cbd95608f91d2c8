"""``make soak``: the twin beside a cluster whose brokers are lost, frozen and moved for minutes.

The twin compares each leader change with what it predicted. At the end of the run two judges look
at that record: one reads the record itself, the other the controllers' own log. Only the judges'
pure functions are unit tests; the run is a program (``__main__``).
"""
