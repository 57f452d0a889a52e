"""Running code nobody has read: files, network, time and processes are limited.

It lies beside the compilers because the build needs it and imports go down; `jobs/sandbox.py` hands
the same functions to the child processes of a job.
"""
