"""Records in, a job directory out; a job's result back in as an Evaluation."""
