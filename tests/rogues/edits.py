"""Places in the honest programs where rogues put something."""

LAUNCH, AFTER, HOST = "// before the launch", "// after the launch", "// host code"
DEVICE, KERNEL, INCLUDES = "// device code", "// kernel start", "// includes"
STORE = "out[row * hidden + i] ="
STREAM = "128, 0, stream"


def before(statement, includes="", host=""):
    """A statement of the launcher, and what it needs outside."""
    edits = [(LAUNCH, statement)]
    if includes:
        edits.append((INCLUDES, "\n".join(f"#include <{name}>" for name in includes.split())))
    if host:
        edits.append((HOST, host))
    return tuple(edits)


def host(text, includes=""):
    """Something beside the launcher."""
    return before("", includes, text)
