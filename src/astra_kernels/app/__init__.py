"""The command line: the outermost layer, the only one that names concrete classes and reads the environment."""
