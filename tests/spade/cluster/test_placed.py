"""Lives on other machines, with real posts and processes; the cluster is of this process, and can be cut."""

import os
import sys
import time
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from spade.cluster import placed
from spade.cluster.lives import make_lives
from spade.cluster.needs import MachineShare, compute_needs
from spade.cluster.placed import LostMachines, PlacedLife, PostGoneError, PostMachine
from spade.cluster.post import Post, PostSetup, pack
from spade.config import Config, dump, load
from spade.errors import ConfigError, RunError
from spade.processes.entry import FINAL, Launch
from spade.processes.supervise import Supervisor, supervise
from spade.transport import keys
from tests.spade.cluster.guest import Entry
from tests.spade.roles import SOON_S, until
from tests.spade.test_supervise import gone

MODULES = dict.fromkeys(("learner", "engine", "agent"), "tests.spade.cluster.guest")
SILENCE_S, DRAIN_S = 6.0, 3.0  # a loaded machine may keep a beat waiting for seconds
ASLEEP_S = 3 * SOON_S  # longer than a silence and a drain of SOON_S each


class Rooms:
    """Machines "a", "b" … with room for so many posts each."""

    def __init__(self, **rooms: int) -> None:
        self.free = rooms
        self.changed = trio.Event()
        self.cut: dict[str, str] = {}  # how a machine is cut off: "silent" or "closed", or "dead": its posts are
        self.asked: list[MachineShare] = []
        self.posts: list[Post] = []
        self.now = time.monotonic  # the clock of all machines

    def post(self, needs: MachineShare, away: Collection[str]) -> "RoomPost":
        if "CPU" in needs.resources:
            raise ConfigError("CPU is no custom resource")
        self.asked.append(needs)
        return RoomPost(self, away)

    def add(self, machine: str) -> None:
        self.free[machine] = self.free.get(machine, 0) + 1
        self.changed.set()
        self.changed = trio.Event()


class RoomPost:
    def __init__(self, rooms: Rooms, away: Collection[str]) -> None:
        self.rooms, self.away = rooms, away
        self.machine = ""

    async def call(self, method: str, *values: Any) -> Any:
        if method == "where":
            return await self.place()
        await self.reach()
        answer = await trio.to_thread.run_sync(getattr(self.post, method), *values, abandon_on_cancel=True)
        await self.reach()  # else the answer is lost on its way
        return answer

    async def reach(self) -> None:
        match self.rooms.cut.get(self.machine):
            case "silent":
                await trio.sleep_forever()
            case "closed" | "dead" as how:
                raise PostGoneError("its connection is closed", known=how == "dead")

    async def place(self) -> PostMachine:
        while not self.machine:
            found = [name for name, free in self.rooms.free.items() if free and name not in self.away]
            if found:
                self.machine = found[0]
                self.rooms.free[self.machine] -= 1
            else:
                await self.rooms.changed.wait()
        self.post = Post()
        self.rooms.posts.append(self.post)
        return PostMachine(f"host-{self.machine}", self.machine, self.rooms.now())

    def dismiss(self) -> None:
        if self.machine:
            self.rooms.add(self.machine)


class Placed:
    """A watcher of a life that gets no place."""

    def on_start(self, pid: int, host: str) -> None:
        raise AssertionError(f"a process was started on {host}")

    def on_ready(self) -> None:
        raise AssertionError("a process is ready")

    def on_wait(self, what: str) -> None:
        pass


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return settings(tmp_path, SOON_S, SOON_S)


def settings(tmp_path: Path, silence_s: float, drain_s: float) -> Config:
    """The config of a run whose directory is made here."""
    folder = tmp_path / "keys"
    keys.create(folder, ())
    given = ("bus.heartbeat_s=0.2", f"bus.silence_s={silence_s}", f"supervise.drain_s={drain_s}", f"bus.keys={folder}")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    config = load("nano", given)
    (run / "config.toml").write_text(dump(config))
    return config


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of all machines; at a test's end no post has left anything in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(placed, "LOOK_S", 0.1)
    yield folder
    assert homes(folder) == []


def diary(tmp_path: Path) -> list[Entry]:
    file = tmp_path / "diary"
    return [msgspec.json.decode(row, type=Entry) for row in file.read_bytes().splitlines()] if file.exists() else []


def homes(temporary: Path) -> list[Path]:
    return list(temporary.iterdir())


def orders(tmp_path: Path, name: str, run: str = "run") -> Launch:
    role = name.rpartition("-")[0] or name
    run_dir = tmp_path / run
    return Launch(name, role, str(run_dir / "config.toml"), str(run_dir), str(tmp_path / "diary"), "tcp://0:1")


def only(supervisor: Supervisor) -> Any:
    (child,) = supervisor.processes()
    return child


async def test_a_process_waits_for_a_place_and_lives_there_as_anywhere(
    tmp_path: Path, config: Config, temporary: Path
) -> None:
    rooms = Rooms()
    supervised = supervise(config.supervise, tmp_path / "logs", MODULES, make_lives(rooms, config, tmp_path / "run"))
    async with supervised as supervisor, trio.open_nursery() as nursery:
        supervisor.number = 1
        nursery.start_soon(supervisor.add, orders(tmp_path, "engine-0"))
        await until(lambda: [child.state for child in supervisor.processes()] == ["waiting"])
        assert (only(supervisor).detail, diary(tmp_path)) == ("1 CPU", [])
        rooms.add("a")
        await until(lambda: only(supervisor).state == "ready")
        (entry,) = diary(tmp_path)
        assert (only(supervisor).pid, only(supervisor).host) == (entry.pid, "host-a")
        assert (entry.bind, entry.run, entry.gpus) == ("tcp://host-a:*", str(tmp_path / "run"), "")
        files = {"server.key", "server.key_secret", "client.key_secret", "allowed/local.key"}
        assert entry.modes == dict.fromkeys(files, 0o600)
        assert [home.stat().st_mode & 0o777 for home in homes(temporary)] == [0o700]
        await supervisor.stop("engine-0")
        assert (only(supervisor).state, only(supervisor).detail, gone(entry.pid)) == ("stopped", "left in order", True)
    assert "left in order" in (tmp_path / "logs/engine-0.log").read_text()
    assert str(rooms.asked[0]) == "1 CPU"


async def test_a_name_never_lives_twice_where_its_machine_is_cut_off(tmp_path: Path) -> None:
    config = settings(tmp_path, SILENCE_S, DRAIN_S)
    rooms = Rooms(a=1, b=1)
    made = make_lives(rooms, config, tmp_path / "run")
    async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
        supervisor.number = 1
        await supervisor.add(orders(tmp_path, "agent-0"))
        await supervisor.add(orders(tmp_path, "agent-1"))
        first = diary(tmp_path)
        rooms.cut = {"a": "silent", "b": "closed"}
        since, waits = trio.current_time(), False
        while not waits or any(child.host != "host-c" or child.state != "ready" for child in supervisor.processes()):
            for child in supervisor.processes():
                alive = [entry for entry in diary(tmp_path) if entry.name == child.name and not gone(entry.pid)]
                assert len(alive) <= 1
                if not waits and child.detail.startswith("1 CPU (not of host-"):
                    assert child.state == "waiting"
                    waits = True
                    rooms.add("c")
                    rooms.add("c")
            await trio.sleep(0.02)
        assert trio.current_time() - since > SILENCE_S
        assert all(gone(entry.pid) for entry in first)
        assert sorted((entry.name, entry.life) for entry in diary(tmp_path)[2:]) == [("agent-0", 2), ("agent-1", 2)]
        unheard = f"did not answer for {SILENCE_S + DRAIN_S:g} s"
        told = [(child.restarts, child.detail) for child in supervisor.processes()]
        assert told == [(1, f"host-a {unheard}"), (1, f"host-b {unheard}")]


async def test_a_place_on_a_machine_lost_while_it_was_waited_for_is_not_taken(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "LOOK_S", SOON_S)  # the machines to avoid are not looked at again meanwhile
    rooms, lost = Rooms(), LostMachines()
    parcel = PostSetup(MODULES["agent"], orders(tmp_path, "agent-0"), dump(config), {}, b"{}", os.getcwd())
    life = PlacedLife(rooms, parcel, compute_needs(config, "agent"), tmp_path / "log", SOON_S, lost)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run, Placed())
        await until(lambda: bool(rooms.asked))
        lost.add(PostMachine("host-b", "b", 0.0))
        rooms.add("b")
        await until(lambda: len(rooms.asked) > 1)
        assert rooms.free == {"b": 1}
        nursery.cancel_scope.cancel()


async def test_a_process_lives_on_where_a_connection_was_closed_for_a_moment(tmp_path: Path, config: Config) -> None:
    rooms = Rooms(a=1)
    made = make_lives(rooms, config, tmp_path / "run")
    async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        rooms.cut = {"a": "closed"}
        await until(lambda: only(supervisor).detail == "the end of its life on host-a, which does not answer")
        rooms.cut = {}
        await until(lambda: only(supervisor).state == "ready")
        (entry,) = diary(tmp_path)
        assert (only(supervisor).pid, only(supervisor).restarts) == (entry.pid, 0)


async def test_a_process_whose_post_is_known_to_be_dead_may_come_back_to_its_machine(tmp_path: Path) -> None:
    config = settings(tmp_path, 4.0, 2.0)
    rooms = Rooms(a=1)
    made = make_lives(rooms, config, tmp_path / "run")
    async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        rooms.cut = {"a": "dead"}
        await until(lambda: only(supervisor).restarts > 0)
        rooms.cut = {}
        await until(lambda: only(supervisor).state == "ready")
        assert only(supervisor).host == "host-a"
        assert only(supervisor).detail == "its post has died (on host-a)"


async def test_a_supervisor_that_slept_takes_no_machine_for_lost(
    tmp_path: Path, config: Config, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine was suspended: the post ends alone, and then the supervisor sees all that time pass at once."""
    mock_clock.rate = 1.0
    clock = MockClock(rate=1.0)  # of the post, which lives in a thread of its own
    monkeypatch.setattr("spade.cluster.post.time", SimpleNamespace(monotonic=clock.current_time, time=time.time))
    monkeypatch.setattr(trio, "run", partial(trio.run, clock=clock))
    monkeypatch.setattr(placed, "LAST_S", SOON_S)  # a busy machine answers late
    rooms = Rooms(a=1)
    rooms.now = clock.current_time
    made = make_lives(rooms, config, tmp_path / "run")
    async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        (first,) = rooms.posts
        rooms.cut = {"a": "silent"}
        first._token.run_sync_soon(clock.jump, ASLEEP_S)
        await until(lambda: first._end is not None)
        rooms.cut = {}
        mock_clock.jump(ASLEEP_S)
        await until(lambda: only(supervisor).restarts > 0 and only(supervisor).state == "ready")
        told = f"its post heard nothing from the supervisor for {SOON_S:g} s (on host-a)"
        assert (only(supervisor).host, only(supervisor).detail) == ("host-a", told)


async def test_a_placed_agent_retires_when_its_supervisor_says_so(tmp_path: Path, config: Config) -> None:
    placed_lives = make_lives(Rooms(a=1), config, tmp_path / "run")
    async with supervise(config.supervise, tmp_path / "logs", MODULES, placed_lives) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        await supervisor.retire("agent-0", 60.0)
        assert (only(supervisor).state, only(supervisor).detail) == ("stopped", "left in order")
        (entry,) = diary(tmp_path)
        assert set(entry.modes) == {"server.key", "client.key_secret"}  # an agent serves nobody


async def test_a_learner_that_does_not_see_the_run_directory_ends_in_one_line(tmp_path: Path, config: Config) -> None:
    made = make_lives(Rooms(a=1), config, tmp_path / "run")
    (tmp_path / "run/run.json").write_text('{"another": "run"}')
    with pytest.raises(RunError, match=r"^learner: .*run: host-a does not see this.* share \(on host-a\)$"):
        async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
            await supervisor.add(orders(tmp_path, "learner"))
    assert diary(tmp_path) == []


async def test_a_learner_that_may_only_read_the_run_directory_ends_in_one_line(tmp_path: Path, config: Config) -> None:
    parcel = tmp_path / "parcel"
    record = (tmp_path / "run/run.json").read_bytes()
    told = PostSetup("none", orders(tmp_path, "learner"), dump(config), {}, record, os.getcwd())
    parcel.write_bytes(pack(told))
    post = (
        "import sys, time; from pathlib import Path; from spade.cluster.post import Post\n"
        "post = Post(); post.begin(Path(sys.argv[1]).read_bytes(), 'host-a', time.monotonic())\n"
        "while (end := post.report(time.monotonic(), 0).end) is None: pass\n"
        "print(end.code, end.why)"
    )
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    walls = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", str(tmp_path / "run")]
    command = [*walls, sys.executable, "-c", post, str(parcel)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        pytest.skip(f"namespaces are not allowed here: {done.stderr.decode()}")
    line = f"{FINAL} {tmp_path}/run: host-a may only read this run directory, and a learner writes there; mount it"
    assert done.stdout.decode().startswith(line), done


async def test_another_process_gets_a_folder_of_its_own_in_place_of_a_run_directory_it_does_not_see(
    tmp_path: Path, config: Config, temporary: Path
) -> None:
    made = make_lives(Rooms(a=1), config, tmp_path / "run")
    (tmp_path / "run/run.json").unlink()
    async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
        await supervisor.add(orders(tmp_path, "engine-0"))
        (home,) = homes(temporary)
        assert diary(tmp_path)[0].run == str(home / "run")


async def test_what_a_cluster_never_gives_ends_in_one_line(tmp_path: Path, config: Config) -> None:
    asks = load(str(tmp_path / "run/config.toml"), ("place.resources={agent={CPU=1}}",))
    made = make_lives(Rooms(a=1), asks, tmp_path / "run")
    with pytest.raises(RunError, match=r"^agent-0: CPU is no custom.*$"):
        async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0"))


async def test_a_machine_with_another_release_ends_in_one_line(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_lives(Rooms(a=1), config, tmp_path / "run")
    other = msgspec.msgpack.encode({"spade": "0.0.9", "protocol": 1, "parcel": "of another form"})
    monkeypatch.setattr("spade.cluster.placed.pack", lambda _: other)
    said = r"^agent-0: host-a has spade \S+ with protocol \d+, the supervisor 0\.0\.9 with 1; .* \(on host-a\)$"
    with pytest.raises(RunError, match=said):
        async with supervise(config.supervise, tmp_path / "logs", MODULES, made) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0"))


def test_a_post_that_is_stopped_before_it_began_starts_nothing() -> None:
    post = Post()
    post.stop()
    post.begin(b"", "host-a", 0.0)
    report = post.report(0.0, 0)
    assert (report.end is not None, report.pid, report.left) == (True, 0, "left before it was started")


def test_the_home_of_a_post_that_was_killed_is_swept(temporary: Path, tmp_path: Path) -> None:
    left = temporary / "spade-post-left"
    left.mkdir()
    (left / "log").touch()
    os.utime(left, (0, 0))
    post = Post()
    wrong = PostSetup("module", orders(tmp_path, "agent-0"), "wrong = 1", {}, b"", os.getcwd())
    post.begin(pack(wrong), "host-a", 0.0)
    while (end := post.report(0.0, 0).end) is None:
        pass
    assert end.why.endswith("unknown setting wrong; correct or remove it (`spade config show` lists all)")
    assert not left.exists()
