"""verifiers: what `spade env export --format verifiers` writes, and what `spade pool import verifiers:ID` reads."""

from importlib import metadata

import verifiers.v1 as vf


def test_the_library_is_the_pinned_one(run):
    assert f"verifiers=={metadata.version('verifiers')}; extra == 'verifiers'" in metadata.requires("spade-rl")
    assert vf.Taskset.INFINITE is False
    assert run.is_dir()
