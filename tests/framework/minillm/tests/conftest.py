# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
