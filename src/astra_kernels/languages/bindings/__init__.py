"""How a framework's operators are called: generated C entry points in front of its own calling convention."""
