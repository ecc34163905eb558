"""The environments of a run are read as programs of a pool."""

import msgspec

from replay.inspect.pool import PoolReader
from replay.ledger.records import Environment, Source
from replay.store import open_store
from tests.replay.kept_world import keep_world


def test_a_reader_reads_each_source_once_and_gives_each_program_once(tmp_path):
    keep_world(tmp_path)
    reader = PoolReader(tmp_path, "a run")
    first = list(reader.new())
    assert len(first) == 1  # that world's programs are all the same
    with open_store(tmp_path, "nosync") as store:
        read = store.scan("environments", Environment)
        late = [msgspec.structs.replace(read[0], id=id) for id in ("e800000", "e900000")]
        sources = Source(first[0].source, "", ""), Source("class NewEnv: ...", "a hint", "")
        store.commit(
            store.encode(
                [
                    *(("sources", each.id, None) for each in read),  # reading one again would fail
                    *(("environments", each.id, each) for each in late),
                    *(("sources", each.id, source) for each, source in zip(late, sources, strict=True)),
                ]
            )
        )
    assert [(program.name, program.hint) for program in reader.new()] == [("e900000", "a hint")]
    assert list(reader.new()) == []
