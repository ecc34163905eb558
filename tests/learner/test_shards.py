"""Sharded states, without DeepSpeed: what any ranks wrote is read by any others, or refused in one line."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import distributed

from learner import checkpoint
from learner.backends import shards, state
from learner.backends.fragments import Fragment
from learner.backends.torch import TorchBackend
from spade import config
from spade.errors import RunError
from spade.protocol import Batch, StepMetrics
from tests.learner.test_full_disk import limited
from tests.peers import alone

SHAPES = {"parameter.matrix": (7, 5), "parameter.vector": (3,), "exp_avg.matrix": (7, 5)}


def cut(tensors, cuts):
    """The fragments of each rank: a tensor is cut at some share of its elements for the next rank to go on."""
    ranks = [{} for _ in range(len(cuts) + 1)]
    for name, tensor in tensors.items():
        flat, shares = tensor.detach().flatten(), sorted(cuts)
        bounds = [0, *(int(share * len(flat)) for share in shares), len(flat)]
        for fragments, start, end in zip(ranks, bounds, bounds[1:], strict=False):
            if start < end:
                fragments[name] = Fragment(flat[start:end], start, tensor.shape)
    return ranks


def write(folder, ranks):
    """Write as the ranks would together, one after the other and without a process group."""
    savings = [shards._Saving(fragments) for fragments in ranks]
    writers = [shards._Writer(folder) for _ in ranks]
    for saving in savings:
        saving.set_up_planner({})
    plans = [w.prepare_local_plan(s.create_local_plan()) for w, s in zip(writers, savings, strict=True)]
    plans, _ = savings[0].create_global_plan(plans)
    for plan, writer, saving in zip(writers[0].prepare_global_plan(plans), writers, savings, strict=True):
        writer.write_data(saving.finish_plan(plan), saving)
    return [writer.files for writer in writers]


def unfilled(ranks):
    return [{name: replaced(fragment) for name, fragment in fragments.items()} for fragments in ranks]


def replaced(fragment):
    return fragment._replace(data=torch.full_like(fragment.data, torch.nan))


def whole():
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


shares = st.lists(st.floats(0, 1, exclude_max=True), max_size=3)


@settings(max_examples=40)
@given(shares, shares, st.sampled_from([1, 60, 1 << 30]))
def test_what_n_ranks_wrote_m_ranks_read_to_the_bit(tmp_path_factory, written, read, file_bytes):
    folder, tensors = tmp_path_factory.mktemp("run") / "shards", whole()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "FILE_BYTES", file_bytes)
        files = write(folder, cut(tensors, written))
    assert sorted(path.name for path in folder.iterdir()) == sorted(name for names in files for name in names)
    for expected, fragments in zip(cut(tensors, read), unfilled(cut(tensors, read)), strict=True):
        shards.read(folder, fragments)
        assert all(torch.equal(fragment.data, expected[name].data) for name, fragment in fragments.items())


def test_what_all_ranks_have_is_written_once(tmp_path):
    tensors = whole()
    files = write(tmp_path, [*cut(tensors, []), *cut(tensors, [])])
    assert all(files)
    assert sum(tensor.numel() for path in tmp_path.iterdir() for tensor in load_file(path).values()) == 73


@pytest.mark.parametrize("damage", ["missing", "all missing", "cut", "header", "twice", "of another", "no folder"])
def test_files_that_are_not_those_that_were_written_are_one_line(tmp_path, damage):
    folder, tensors = tmp_path / "shards", whole()
    write(folder, cut(tensors, [0.5]))
    first, second = sorted(folder.iterdir())
    match damage:
        case "missing":
            second.unlink()
        case "all missing":
            first.unlink()
            second.unlink()
        case "cut":
            second.write_bytes(second.read_bytes()[:-8])
        case "header":
            save_file(load_file(second), second, {"DCP_SHARDING_INFO": '{"parameter.matrix": 3}'})
        case "twice":
            second.with_name("shard-00003.safetensors").write_bytes(second.read_bytes())
        case "of another":
            second.unlink()
            write(tmp_path / "other", cut(tensors, [0.8]))
            sorted((tmp_path / "other").iterdir())[1].rename(second)
        case "no folder":
            folder = tmp_path / "nothing"
    with pytest.raises(RunError) as refused:
        shards.read(folder, *unfilled(cut(tensors, [])))
    line = str(refused.value)
    assert line.startswith(f"{folder}: ")
    assert "\n" not in line


def trained(policy):
    """A backend after a step, and one that knows nothing of it."""
    made = [TorchBackend(copy.deepcopy(policy.model), config.load("nano", ("learner.lr=1e-3",))) for _ in range(2)]
    made[0].train(Batch(1, 1, policy.groups(1)))
    return made


def sharded(folder, backend, cuts):
    """The state of a backend as ranks would have written it."""
    tensors = {name: fragment.data.view(fragment.shape) for name, fragment in backend._list_fragments().items()}
    write(folder / state.SHARDS, cut(tensors, cuts))
    shapes = {name: tuple(one.shape) for name, one in backend.model.named_parameters()}
    steps = {f"step.{name}": torch.tensor(1.0) for name in shapes}
    state.freeze(state.Counters(1, 0), steps.items(), torch.device("cpu"), sharded=shapes)(folder)


def test_one_process_goes_on_from_the_shards_of_many(policy, tmp_path):
    straight, resumed = trained(policy)
    sharded(tmp_path, straight, [0.3, 0.6])
    resumed.load(tmp_path)
    assert resumed.step == 1
    states = []
    for name, backend in {"straight": straight, "resumed": resumed}.items():
        backend.train(Batch(2, 1, policy.groups(2)))
        (tmp_path / name).mkdir()
        backend.save(tmp_path / name)
        states.append(load_file(tmp_path / name / state.FILE))
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items() if name != "random")


def test_shards_of_another_model_are_refused_before_anything_changes(policy, tmp_path):
    straight, resumed = trained(policy)
    sharded(tmp_path, straight, [0.5])
    header = dict(state.State(tmp_path)._file.metadata())
    for wrong in ('{"lm_head.weight": [9]}', "{}", "[]"):
        save_file(load_file(tmp_path / state.FILE), tmp_path / state.FILE, header | {"shapes": wrong})
        before = [value.clone() for value in resumed.model.parameters()]
        with pytest.raises(RunError, match=r"holds another model|cannot be read"):
            resumed.load(tmp_path)
        assert all(torch.equal(one, other) for one, other in zip(before, resumed.model.parameters(), strict=True))


def test_a_flipped_bit_of_a_shard_passes_its_checkpoint_over(policy, tmp_path, caplog):
    straight, _ = trained(policy)

    def save(folder):
        sharded(folder, straight, [0.5])
        return {}

    for step in (1, 2):
        checkpoint.write(tmp_path, step, StepMetrics(), save, alone)
    shard = sorted((tmp_path / "step-2" / state.SHARDS).iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert checkpoint.find_newest(tmp_path)[1].step == 1
    assert f"step-2: passed over: {state.SHARDS}/{shard.name} is damaged" in caplog.text


def test_what_a_rank_measured_is_not_read_again_and_has_to_be_there(tmp_path):
    def save(folder):
        (folder / "there").write_bytes(b"there")
        return {"there": "measured elsewhere"} | (
            {"gone": "measured elsewhere"} if folder.parent.parent.name == "b" else {}
        )

    written = checkpoint.write(tmp_path / "a", 1, StepMetrics(), save, alone)
    assert "measured elsewhere" in (written / checkpoint.MANIFEST).read_text()
    with pytest.raises(FileNotFoundError, match="gone"):
        checkpoint.write(tmp_path / "b", 1, StepMetrics(), save, alone)
    assert checkpoint.find_newest(tmp_path / "b") is None


@pytest.mark.parametrize("most", [0, 200])
def test_a_full_disk_is_told_as_what_it_is(tmp_path, most):
    def work():
        distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
        shards.write(tmp_path / "shards", *cut(whole(), []))

    said = limited(most, work)
    assert "learner cannot write its part (File too large); free some space" in said
    assert "BUG" not in said
