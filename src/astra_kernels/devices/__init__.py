"""`cuda:N` and `sim:<gpu>` behind one protocol: memory, calls of a C entry point, facts."""
