"""Events folded for a reader: plain functions of the log, without a clock or I/O, the same live and reloaded."""
