"""Records out: problem directories, kernels and diffs."""
