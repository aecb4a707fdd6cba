"""The same daemon seen from outside: find it, make sure that it is ours, speak to it.

Nothing is imported here: httpx2 costs forty milliseconds, and a program that only wants `--help` should not pay for it.
"""
