"""The cache in which `make test-lm` keeps language models of others."""

import os
from pathlib import Path

MODELS = Path(os.environ.get("SPADE_MODELS") or Path.home() / ".cache" / "spade" / "models")
