"""Write and read state tensors in sharded form. Each rank writes its own fragments with torch's distributed checkpoint.

A tensor is stored flattened, in the fragments that the ranks have of it. A reader takes the elements that it needs from
any of the files. The files are safetensors with the place of each fragment in the header, so that nothing is unpickled.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.state_dict_saver import save

from learner.backends.fragments import Fragment, Fragments
from learner.backends.meeting import name_of
from spade.errors import RunError, SpadeError, format_reason

FILE_BYTES = 1 << 30  # approximate size limit, because a file is made in memory before it is written


def write(folder: Path, fragments: Fragments) -> tuple[Path, ...]:
    """Write the fragments of all ranks. All ranks call this together. Returns the synced files of this rank.

    If several ranks have the same fragment, one of them writes it. If writing fails on one rank, all ranks raise
    SpadeError.
    """
    writer = _Writer(folder)
    try:
        save({}, storage_writer=writer, planner=_Saving(fragments))
    except CheckpointException as failed:  # CheckpointException is not a subclass of Exception
        rank, (error, _) = next(iter(failed.failures.items()))
        if isinstance(error, OSError | SafetensorError):
            raise SpadeError(f"{folder}: {name_of(rank)} cannot write its part ({format_reason(error)})") from None
        raise error from None
    return tuple(folder / name for name in sorted(writer.files))


def read(folder: Path, fragments: Fragments) -> None:
    """Fill this process's fragments from the files, which any number of ranks may have written.

    Raises RunError if files are missing or damaged. Some fragments may then be filled.
    """
    reader = HuggingFaceStorageReader(str(folder))
    try:
        metadata = reader.read_metadata()
        items: list[ReadItem] = []
        for name, fragment in fragments.items():
            kept = metadata.state_dict_metadata.get(name)
            if not isinstance(kept, TensorStorageMetadata) or not _is_tiled(kept, fragment.shape.numel()):
                raise RunError(f"{folder}: its files do not make up {name}; a file is missing, or does not belong here")
            items += create_read_items_for_chunk_list(name, kept, [_describe_chunk(fragment)])
        reader.set_up_storage_reader(metadata, is_coordinator=True)
        reader.read_data(LoadPlan(items), _Loading(fragments)).wait()
    except (OSError, SafetensorError, ValueError, TypeError, LookupError, AssertionError) as error:
        # Most of these come from damaged headers.
        raise RunError(f"{folder}: cannot be read ({format_reason(error)})") from None


def _is_tiled(kept: TensorStorageMetadata, count: int) -> bool:
    """Return True if the chunks of a tensor cover each element exactly once."""
    end = 0
    for start, size in sorted((chunk.offsets[0], chunk.sizes[0]) for chunk in kept.chunks):
        if start != end:
            return False
        end += size
    return end == count


def _describe_chunk(fragment: Fragment) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size((fragment.start,)), torch.Size((len(fragment.data),)))


class _Saving(DefaultSavePlanner):
    """A planner that writes a rank's fragments. The inherited global plan checks that no element is missing."""

    def __init__(self, fragments: Fragments) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._fragments = fragments

    def create_local_plan(self) -> SavePlan:
        """Plan to write this rank's fragments (see SavePlanner)."""
        self.plan = SavePlan([_describe_item(name, fragment) for name, fragment in self._fragments.items()])
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        """Return the data of a planned item."""
        return self._fragments[index.fqn].data


def _describe_item(name: str, fragment: Fragment) -> WriteItem:
    chunk, properties = _describe_chunk(fragment), TensorProperties(fragment.data.dtype)
    data = TensorWriteData(chunk, properties, torch.Size((fragment.shape.numel(),)))
    return WriteItem(MetadataIndex(name, chunk.offsets), WriteItemType.SHARD, tensor_data=data)


class _Loading(DefaultLoadPlanner):
    """A planner that reads into a rank's fragments."""

    def __init__(self, fragments: Fragments) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._fragments = fragments

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Return the data of a planned item."""
        return self._fragments[index.fqn].data


class _Writer(HuggingFaceStorageWriter):
    """A writer that limits files to about FILE_BYTES, and remembers their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), save_distributed=True)
        self.files: set[str] = set()

    def write_data(self, plan: SavePlan, planner: Any) -> Any:
        """Write this rank's files (see StorageWriter)."""
        files: dict[str, int] = {}
        filled = 0
        for item in plan.items:
            assert item.tensor_data is not None
            files[item.index.fqn] = 1 + filled // FILE_BYTES
            filled += item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize
        written = super().write_data(
            replace(plan, storage_data={**plan.storage_data, "fqn_to_index_mapping": files}), planner
        )
        self.files = {result.storage_data.relative_path for result in written.value()}
        return written
