"""Bodies and cases that several files here share are found by their names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
