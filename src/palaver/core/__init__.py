"""The decisions, pure: what a command makes happen, what an event changes, and what should be running now.

No clock, no I/O, no `await`. `State` is a value: applying an event makes a new one, so that the state that is *ahead* and the state
that is *safe* are two values of one history.
"""
