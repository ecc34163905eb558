"""Write Parquet files. The schema comes from the record type, and is not inferred from the rows."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
from msgspec import inspect
from pyarrow import parquet

BATCH = 256  # rows that are converted to columns together


def write_parquet(file: Path, kind: type[msgspec.Struct], rows: Iterable[dict[str, Any]], keyed: bool = True) -> None:
    """Write one row for each record: the fields of `kind`. With `keyed`, a column `key` comes first."""
    keys = [pyarrow.field("key", pyarrow.string(), nullable=False)] if keyed else []
    schema = pyarrow.schema([*keys, *_list_fields(kind)])
    left = iter(rows)
    # pyarrow refuses a path that is not UTF-8, so give it an open file.
    with file.open("wb") as opened, parquet.ParquetWriter(opened, schema, compression="zstd") as writer:
        while batch := list(islice(left, BATCH)):
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))


def _list_fields(kind: type[msgspec.Struct]) -> Iterator[Any]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return (pyarrow.field(field.name, _make_column(field.type)) for field in described.fields)


def _make_column(described: inspect.Type) -> Any:
    match described:
        case inspect.UnionType(types=types):
            (value,) = [one for one in types if not isinstance(one, inspect.NoneType)]
            return _make_column(value)
        case inspect.StructType(cls=cls):
            return pyarrow.struct(list(_list_fields(cls)))
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return pyarrow.list_(_make_column(item))
        case inspect.TupleType(item_types=(item, *_)):  # a run (version, count): both items have the same type
            return pyarrow.list_(_make_column(item))
        case inspect.BoolType():
            return pyarrow.bool_()
        case inspect.IntType():
            return pyarrow.int64()
        case inspect.FloatType():
            return pyarrow.float64()
        case inspect.StrType() | inspect.LiteralType():
            return pyarrow.string()
        case _:
            raise TypeError(f"no Parquet column for {described}")
