"""A job is a self-contained directory; `run_job` turns it into an Evaluation, here or on another machine."""
