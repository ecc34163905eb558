from pathlib import Path

import pytest


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s"
