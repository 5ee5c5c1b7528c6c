"""The ceiling: the same work in bare SQL on the same table, without a queue around it.

Its processes know neither Django nor the queue; each gets an address and statements to run.
"""
