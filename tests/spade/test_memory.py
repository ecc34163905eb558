"""Freed memory goes back to the system, also between blocks that stay."""

import os
from pathlib import Path

import torch

from spade.processes.memory import trim

BLOCKS, BLOCK = 4_000, 1 << 15  # bytes; the allocator keeps blocks of this size in its heap


def count_resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_freed_blocks_between_blocks_in_use_go_back():
    blocks = [torch.ones(BLOCK // 4) for _ in range(BLOCKS)]
    kept = blocks[::10]
    del blocks
    before = count_resident_bytes()
    trim()
    assert before - count_resident_bytes() > BLOCKS * BLOCK // 2
    assert all(block.sum() == BLOCK // 4 for block in kept)
