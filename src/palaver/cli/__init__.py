"""The command line: a client and a screen, nothing else."""
