"""A run of real processes whose learner was killed on the way: what that one left, and `spade replay …` beside it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio
import typer

from learner import checkpoint, train
from replay.inspect.environments import find_newest_weights, list_published
from replay.ledger.records import Environment
from replay.store import FORMAT, Format, open_reader, open_store
from spade import config
from spade.app.commands.replay.batch import batch
from spade.app.commands.replay.remake import remake
from spade.app.commands.replay.verify import verify
from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.app.supervisor.kept import find_kept_best, find_newest_policy
from spade.disk import discard
from spade.errors import RunError
from spade.extras import describe_installing
from spade.policy import kept as kept_policies
from spade.policy import manifest
from spade.policy.model import compute_parameters_digest
from spade.protocol import LifeNumber
from tests.learner.fed_learner import SMALL, running
from tests.peers import alone, orders, pid_of
from tests.replay.kept_world import keep_world
from tests.replay.service.running import serving

STEPS = 7
READ_ONLY = (["stats"], ["verify"], ["lineage", "1"], ["batch", "2"])


@pytest.fixture(scope="module")
def replay(spade):
    """`replay(run, "stats", …)` is `spade replay stats RUN …`."""
    return lambda run, command, *words: spade("replay", command, str(run), *words)


@pytest.fixture(scope="module")
def kept(replay, tiny_checkpoint, tmp_path_factory):
    """(run, what commands said beside it): seven steps, the learner killed after six of them, a checkpoint at four."""
    run = tmp_path_factory.mktemp("runs") / "run"
    settings = config.load("nano", (*SMALL, f"model.path={tiny_checkpoint}", "learner.keep_policy_every=3"))
    for name in ("run", "other"):
        RunDir(run.parent / name).create(settings)
    keep_world(run.parent / "other" / "store", settings=settings, until=5.0)
    beside = {}

    async def live():
        async with running(settings, run) as (supervisor, feeder):
            await feeder.design(18)
            await feeder.until(6)
            os.kill(pid_of(supervisor, "learner"), signal.SIGKILL)
            for name, *words in (*READ_ONLY, ("compact",), ("import", str(run.parent / "other"))):
                beside[name] = await trio.to_thread.run_sync(replay, run, name, *words)
            await feeder.design(3)
            await feeder.until(STEPS)
            await supervisor.stop("learner")

    trio.run(live)
    return run, beside


@pytest.fixture
def copied(kept, tmp_path):
    """The same run, to be damaged."""
    shutil.copytree(kept[0], tmp_path / "run", ignore=shutil.ignore_patterns("replay"))
    return tmp_path / "run"


def test_a_learner_that_was_killed_resumes_bit_for_bit_and_drained_it_keeps_what_it_learnt(kept):
    run, _ = kept
    assert "resumed at step 4 " in (run / "logs" / "learner.log").read_text()
    # The steps after the checkpoint were taken twice. Had one bit of their parameters differed, they would have been
    # published under a second digest, and so under a version beyond one for each step and the initial one.
    weights = find_newest_weights(run / "store")
    assert (weights.step, weights.version) == (STEPS, STEPS + 1)
    folder = Path(weights.path)
    assert folder == run / "weights" / weights.digest == run / "weights" / compute_parameters_digest(folder)
    assert (folder / "tokenizer.json").is_file()
    _, manifest = checkpoint.find_newest(run / "checkpoints")
    assert manifest.step == trio.run(read_status, reach(RunDir(run))).learner_step == STEPS
    assert manifest.metrics.trained_tokens > 0


def test_policies_are_kept_whole_and_once_though_their_learner_was_killed(kept):
    """Step 6 was trained twice."""
    run, _ = kept
    announced = {(one.step, one.digest) for one in list_published(run / "store")}
    found = kept_policies.list_by_step(run / kept_policies.FOLDER)
    assert [step for step, _ in found] == [3, 6]
    assert all((step, manifest.verify_parameters(folder)) in announced for step, folder in found)
    assert not list((run / kept_policies.FOLDER).glob(".draft-*"))


async def test_a_learner_ends_at_a_store_that_has_not_its_steps(copied):
    shutil.rmtree(copied / "store")
    settings = RunDir(copied).config()
    launch = msgspec.structs.replace(orders(copied, settings, "learner"), life=LifeNumber(1_000, 1))
    refused = pytest.RaisesExc(RunError, match="checkpoints .*step 7 cannot retire")
    async with serving(copied, settings):
        with pytest.RaisesGroup(refused, allow_unwrapped=True, flatten_subgroups=True):
            await train.run(launch, settings, lambda: None)


@pytest.mark.parametrize("words", READ_ONLY, ids=lambda words: words[0])
def test_reading_commands_work_beside_the_run_and_after_it(kept, replay, words):
    run, beside = kept
    assert beside[words[0]].returncode == 0, beside[words[0]].stdout + beside[words[0]].stderr
    if words[0] == "batch":
        assert "bit-identical to what was recorded" in beside["batch"].stdout
        batch(run, 2)
    else:
        assert replay(run, *words).returncode == 0


@pytest.mark.parametrize("name", ["compact", "import"])
def test_writing_commands_are_refused_beside_the_run(kept, name):
    done = kept[1][name]
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "another replay service has this store" in done.stderr


def recorded_losses(run):
    """The last row of each step in `metrics.jsonl`."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["learner_step"]: row["loss"] for row in rows if row["kind"] == "step"}


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_every_step_made_again_has_the_loss_it_had_to_the_bit(kept, step):
    """Those that the killed learner took twice, too."""
    run, _ = kept
    made = remake(run, step, None)
    assert made.checkpoint == (4 if step > 4 else 0)
    assert made.loss == made.recorded == recorded_losses(run)[step]
    assert made.differs == ()
    assert made.loss != 0


def test_the_tensors_of_a_step_can_be_taken_away(kept, tmp_path, capsys):
    from safetensors.torch import load_file

    run, _ = kept
    batch(run, 3, tmp_path / "step.safetensors", json=True)
    made = json.loads(capsys.readouterr().out)
    tensors = load_file(tmp_path / "step.safetensors")
    assert sum(len(value) for name, value in tensors.items() if name.endswith(".target")) == made["trained_tokens"]
    assert made["tensors"] == remake(run, 3, None).tensors != remake(run, 2, None).tensors


def test_other_settings_than_the_recorded_ones_are_seen(copied, capsys):
    RunDir(copied).create(config.load(str(copied / "config.toml"), ("learner.lr=1e-1",)))
    with pytest.raises(typer.Exit) as ended:
        batch(copied, 7)
    assert ended.value.exit_code == 1
    assert "loss, " in (said := capsys.readouterr().out)
    assert "differ; only the same settings" in said


def test_a_retired_checkpoint_is_one_line_that_says_which_would_do(copied):
    checkpoint.prune(copied / "checkpoints", STEPS, 1, alone)
    with pytest.raises(RunError, match=r"step 6 .* step 2 to 5, .* 7\)") as refused:
        remake(copied, 6, None)
    assert "\n" not in str(refused.value)
    assert remake(copied, 4, None).checkpoint == 0


def test_a_step_never_taken_is_one_line(kept):
    with pytest.raises(RunError, match=r"step 99 .*was never taken; .* are 1 to 7"):
        remake(kept[0], 99, None)


def test_a_run_without_steps_has_none_to_repeat(tmp_path, tiny_checkpoint):
    run = RunDir(tmp_path / "run")
    run.create(config.load("nano", (*SMALL, f"model.path={tiny_checkpoint}")))
    with open_store(run.store, "nosync"):
        pass
    with pytest.raises(RunError, match=r"step 1 was never taken; .* no step yet"):
        remake(run.path, 1, None)


def damage_weights(run):
    file = run / "weights" / find_newest_weights(run / "store").digest / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def lose_weights(run):
    shutil.rmtree(run / "weights" / find_newest_weights(run / "store").digest)


def damage_checkpoint(run):
    file = run / "checkpoints" / "step-7" / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def lose_checkpoints(run):
    shutil.rmtree(run / "checkpoints")


def test_a_run_that_was_moved_exports_its_own_policy(copied):
    run = RunDir(copied)
    assert find_newest_policy(run).folder == copied / "weights" / find_newest_weights(copied / "store").digest
    later = shutil.copytree(copied / "checkpoints" / "step-7", copied / "checkpoints" / "step-99")
    # A stopped run may have its last step in a checkpoint alone.
    assert find_newest_policy(run).folder == later / "model"
    lose_checkpoints(copied)
    empty = copied / "policies" / "step-100"
    empty.mkdir(parents=True)
    assert find_newest_policy(run).place == "published"
    lose_weights(copied)
    with pytest.raises(RunError, match=r"the newest policy, of step \d+, is missing"):
        find_newest_policy(run)


def test_a_damaged_record_of_the_best_policy_hinders_no_other_policy(copied):
    run = RunDir(copied)
    newest = find_newest_policy(run)
    (copied / "best" / "1").mkdir(parents=True)
    (copied / "best" / "1" / "best.json").write_text("x")
    assert find_newest_policy(run) == newest
    with pytest.raises(RunError, match=r"best/1/best\.json: cannot be read"):
        find_kept_best(run)


@pytest.mark.parametrize("name", ["status.json", "run.json"])
def test_a_damaged_record_is_one_line(copied, name):
    (copied / name).write_text("x")
    run = RunDir(copied)
    with pytest.raises(RunError, match=f"{name}: is damaged"):
        trio.run(read_status, reach(run)) if name == "status.json" else run.create(run.config())


def change_meaning(run):
    (run / "config.toml").write_text(config.dump(config.load(str(run / "config.toml"), ("reward.regret_scale=0.5",))))


@pytest.mark.parametrize(("damage", "says"), [
    (damage_weights, "its digest is not"),
    (lose_weights, "the newest policy, version 8, is missing"),
    (damage_checkpoint, "step-7: is damaged"),
    (lose_checkpoints, "the learner wrote one of step 4, but the newest whole one is of step 0"),
    (change_meaning, "has the settings of another run than the store"),
])  # fmt: skip
def test_verify_names_what_is_broken_beside_the_store(copied, replay, damage, says):
    damage(copied)
    done = replay(copied, "verify")
    assert done.returncode == 1
    assert done.stdout.count("\n") == 2, done.stdout
    assert says in done.stdout.splitlines()[0]
    assert "1 problem," in done.stdout


def test_files_that_this_user_may_not_read_are_not_called_damaged(copied, monkeypatch, capsys):
    def shut(folder, *rest):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / "model.safetensors"))

    for module, name in ((manifest, "verify"), (manifest, "verify_parameters"), (checkpoint, "verify_checkpoint")):
        monkeypatch.setattr(module, name, shut)
    with pytest.raises(typer.Exit):
        verify(copied)
    *lines, last = capsys.readouterr().out.splitlines()
    assert f"{len(lines)} problems," in last
    assert len(lines) > 2  # weights and both checkpoints
    for line in lines:  # nothing about a newest checkpoint, which may be whole
        folder, _, told = line.partition(": ")
        assert told == f"cannot be checked ({folder}/model.safetensors: Permission denied)"


def test_weights_that_a_live_learner_retires_meanwhile_are_not_missed(copied, monkeypatch):
    """Half of what there is goes between its being listed and its being read."""

    def retired_first(read):
        def reading(folder, *rest):
            if folder.name in ("step-4", oldest.name):
                discard(folder)
            return read(folder, *rest)

        return reading

    oldest = min((copied / "weights").glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
    monkeypatch.setattr(checkpoint, "verify_checkpoint", retired_first(checkpoint.verify_checkpoint))
    monkeypatch.setattr(manifest, "verify", retired_first(manifest.verify))
    verify(copied)
    assert not oldest.exists()
    assert [path.name for path in (copied / "checkpoints").glob("step-*")] == ["step-7"]


def test_lineage_of_a_step_names_plays_documents_and_weights(kept, replay):
    run, _ = kept
    said = replay(run, "lineage", "7").stdout
    words = ("step 7, trained at version 7", "document tides", "hint: pull the second lever", "unhinted", ": weights ")
    assert [word for word in words if word not in said] == []
    line = json.loads(replay(run, "lineage", "e000000", "--json").stdout)
    assert line["designs"][0]["environment"]["id"] == "e000000"
    done = replay(run, "lineage", "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_export_has_every_record_token_for_token(kept, replay, tmp_path, kind):
    from pyarrow import parquet

    run, _ = kept
    done = replay(run, "export", str(tmp_path / "out"), *(["--parquet"] if kind == "parquet" else []))
    assert done.returncode == 0, done.stderr
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".jsonl"} | {f".{kind}"}

    def rows(table):
        file = tmp_path / "out" / f"{table}.{kind}"
        if kind == "parquet":
            return parquet.read_table(file).to_pylist()
        return [json.loads(line) for line in file.read_text().splitlines()]

    with open_reader(run / "store") as store:
        environments = store.scan("environments", Environment)
        counts = {table: extent.records for table, extent in store.extents().items() if table != "meta"}
    assert {table: len(rows(table)) for table in counts} == counts
    assert [row["score"]["regret"] for row in rows("environments") if row["score"]] == [
        environment.score.regret for environment in environments if environment.score
    ]
    first = rows("trajectories")[0]
    assert len(first["ids"]) == len(first["mask"])
    assert sum(first["mask"]) == len(first["logprobs"]) == sum(count for _, count in first["versions"])
    assert replay(run, "export", str(tmp_path / "out")).returncode == 1


def test_parquet_without_pyarrow_is_one_line_and_nothing_is_written(kept, tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from importlib import util; find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'pyarrow' else find(name, *a)\n"
        "from spade.app import cli; sys.argv = ['spade', *sys.argv[1:]]; cli.main()"
    )
    words = ["replay", "export", str(kept[0]), str(tmp_path / "out"), "--parquet"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert done.stderr == f"spade: --parquet needs pyarrow, which is not installed: {describe_installing('export')}\n"
    assert not list(tmp_path.iterdir())


def test_compact_keeps_all_and_the_run_goes_on(copied, replay):
    assert replay(copied, "compact").returncode == 0
    assert replay(copied, "verify").returncode == 0
    assert remake(copied, STEPS, None).differs == ()


def test_import_makes_a_new_run_with_the_old_ones_memory(copied, replay, tmp_path):
    done = replay(tmp_path / "new", "import", str(copied), "--set", "learner.lr=1e-4")
    assert done.returncode == 0, done.stderr
    assert "21 environments of the memory" in done.stdout
    assert RunDir(tmp_path / "new").config().learner.lr == 1e-4
    assert replay(tmp_path / "new", "verify").returncode == 0
    other = ("--set", "model.profile=full", "--set", "play.max_turns=12")
    refused = replay(tmp_path / "newer", "import", str(copied), *other)
    assert refused.returncode == 1
    assert "model.profile" in refused.stderr
    assert not (tmp_path / "newer").exists()
    assert replay(copied, "import", str(copied)).returncode == 1


def test_a_newer_store_is_one_line_for_every_command(copied, replay):
    with open_store(copied / "store", "nosync") as store:
        store.commit([("meta", b"format", msgspec.msgpack.encode(Format(FORMAT + 1)))])
    for words in (["stats"], ["verify"], ["lineage", "1"], ["export", str(copied / "out")], ["compact"]):
        done = replay(copied, *words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert f"format {FORMAT + 1}" in done.stderr
