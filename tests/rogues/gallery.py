"""All rogues and look-alikes."""

from .harness import HARNESS
from .lookalikes import LOOKALIKES
from .reuse import REUSE
from .shortcuts import SHORTCUTS

ROGUES = (*HARNESS, *REUSE, *SHORTCUTS, *LOOKALIKES)
