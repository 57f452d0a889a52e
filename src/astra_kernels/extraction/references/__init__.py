"""NumPy references by kind of operator; each is copied into the problems that use it."""
