"""Write environments as tables: a data set folder for the hub, Parquet or JSON Lines."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from spade.app.pools.cards import render
from spade.app.pools.tables import PoolRow, to_row
from spade.config import Config
from spade.disk import write_whole
from spade.errors import RunError
from spade.extras import describe_installing
from spade.pools import PoolProgram

TableFormat = Literal["hub", "parquet", "jsonl"]


def write_tables(folder: Path, format: TableFormat, programs: Iterable[PoolProgram], config: Config, run: str) -> int:
    """Write programs of a run as a folder with a table. Return their number. The format hub adds a card.

    Raises RunError if the folder exists or a package is missing.
    """
    if format != "jsonl" and find_spec("pyarrow") is None:
        raise RunError(f"--format {format} needs pyarrow, which is not installed: {describe_installing('export')}")
    rows = [msgspec.to_builtins(to_row(program)) for program in programs]
    with write_whole(folder) as part:
        part.mkdir(parents=True)
        name = "train" if format == "hub" else "environments"
        if format == "jsonl":
            encoder = msgspec.json.Encoder()
            with (part / f"{name}.jsonl").open("wb") as file:
                file.writelines(encoder.encode(row) + b"\n" for row in rows)
        else:
            from spade.app.commands.replay.parquet import write_parquet

            write_parquet(part / f"{name}.parquet", PoolRow, rows, keyed=False)
        if format == "hub":
            (part / "README.md").write_text(render("data_set.md", config, run=run, count=len(rows)), encoding="utf-8")
    return len(rows)
