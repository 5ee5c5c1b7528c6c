"""The same work in bare SQL on the same table: the upper bound for the queue.

Its processes import neither Django nor the queue; each gets an address and statements to run.
"""
