"""The curator between a small replay service and a real env-runner."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from actors.environments import runner as env_runner
from actors.roles import curator
from actors.text import worlds
from spade import protocol
from spade.codec import compute_program_digest
from spade.errors import RunError
from spade.pools import PoolProgram, write_program
from spade.processes.entry import Launch
from tests.actors.roles.test_designer import CRASHES, GOOD
from tests.actors.small_services import SmallReplay, actor_settings, process, service, small_replay

HINT = "Use what is in place."


@pytest.fixture
def run(tmp_path):
    """A run's directory with a pool of a sound program and one that raises."""
    (tmp_path / "pool").mkdir()
    write_program(tmp_path / "pool", PoolProgram("vault", GOOD, HINT))
    write_program(tmp_path / "pool", PoolProgram("crash", CRASHES))
    return tmp_path


def job(number, name, source):
    return protocol.DesignJob(
        f"j{number}", 1, 0, "logical deduction", draw=0, sampler=7, program=name, digest=compute_program_digest(source)
    )


@asynccontextmanager
async def curating(small, run, runner=None, source="folder:elsewhere", *overrides):
    """A curator, and no engine anywhere. Its tokenizer would be at a path that is none."""
    settings = actor_settings(
        Path("/nowhere"), "design.source=pool", f"pool.source={source}", "sandbox.load_s=60.0",
        "sandbox.step_s=60.0", *overrides,
    )  # fmt: skip
    async with (
        small_replay(small, settings) as replay,
        process(env_runner.run, "env-runner", replay, settings)
        if runner is None
        else service("env-runner", "runner-0", replay, settings, runner),
        trio.open_nursery() as nursery,
    ):
        launch = Launch("curator-0", "curator", config="", run=str(run), replay=replay.address)
        nursery.start_soon(curator.run, launch, settings, lambda: None)
        yield
        nursery.cancel_scope.cancel()


async def test_programs_are_handed_in_after_admission_or_rejected_with_the_reason(run):
    small = SmallReplay(jobs=[job(0, "vault", GOOD), job(1, "crash", CRASHES), job(2, "vault", GOOD)])
    async with curating(small, run):
        await small.until_done(3)
    done = {each.job: each for each in small.done}
    for handed_in in done["j0"], done["j2"]:
        assert isinstance(handed_in, protocol.SubmitEnvironment)
        assert (handed_in.source, handed_in.hint, handed_in.document) == (GOOD, HINT, "vault")
        assert (handed_in.trajectory, handed_in.name, handed_in.reads) == (None, "VaultEnv", "inside")
        assert handed_in.first_observation == "Open the vault. Actions: 10..99"
        assert not handed_in.single_turn
    rejected = done["j1"]
    assert isinstance(rejected, protocol.RejectCandidate)
    assert (rejected.stage, rejected.last, rejected.trajectory, rejected.completion) == ("episode", True, None, CRASHES)
    assert "ZeroDivisionError" in rejected.reason


async def test_a_program_of_a_pool_that_asks_one_question_is_handed_in_as_one(run):
    (run / "pool/vault.hint").unlink()
    (run / "pool/vault.json").unlink()
    (run / "pool/vault.py").write_text(worlds.ANSWER)
    small = SmallReplay(jobs=[job(0, "vault", worlds.ANSWER)])
    async with curating(small, run):
        await small.until_done(1)
    assert small.done[0].single_turn


@pytest.mark.parametrize(("library", "single_turn"), [
    ("reasoning-gym", True), ("rlve", True), ("gem", False), ("gymnasium", False),
])  # fmt: skip
async def test_a_program_of_a_library_of_questions_is_handed_in_as_one(run, library, single_turn):
    small = SmallReplay(jobs=[job(0, "vault", GOOD)])
    opened = protocol.Verdict(True, (protocol.Stage("open", True),))
    async with curating(small, run, lambda _: opened, library, f'sandbox.libraries=["{library}"]'):
        await small.until_done(1)
    assert small.done[0].single_turn == single_turn


async def test_an_env_runner_in_trouble_gives_the_job_back(run):
    small = SmallReplay(jobs=[job(0, "vault", GOOD)])
    async with curating(small, run, lambda _: protocol.Refused("overloaded")):
        await small.until_done(1)
    assert small.done[0] == protocol.ReleaseDesign("j0", 1)


@pytest.mark.parametrize(
    ("digest", "file", "line"),
    [
        (GOOD, None, "the program vault is missing"),
        (GOOD, CRASHES, "vault.py was changed since vault.json was written"),
        (CRASHES, GOOD, "vault.py was changed since the run started"),
    ],
)
async def test_a_program_that_is_missing_or_changed_ends_it_with_one_line(run, digest, file, line):
    asked = []
    small = SmallReplay()
    with pytest.RaisesGroup(pytest.RaisesExc(RunError, match=line), flatten_subgroups=True):
        async with curating(small, run, asked.append):
            await small.until(lambda: bool(small.counts))  # the list was read
            (run / "pool/vault.py").unlink()
            if file is not None:
                (run / "pool/vault.py").write_text(file)
            small.work.append(job(0, "vault", digest))
            small.change()
            await trio.sleep_forever()
    assert asked == []


async def test_a_pool_that_cannot_be_read_is_refused_before_anything_is_leased(run):
    (run / "pool/evil.py").symlink_to("evil.py")
    small = SmallReplay(jobs=[job(0, "vault", GOOD)])
    with pytest.RaisesGroup(pytest.RaisesExc(RunError, match="symbolic links"), flatten_subgroups=True):
        async with curating(small, run):
            await trio.sleep_forever()
    assert small.counts == []
