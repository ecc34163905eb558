"""`spade serve`: a gateway over its own engines on a pinned policy, or over the engines of a live run."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from spade.app.evaluation.measuring import Subject
from spade.app.evaluation.policies import PinnedPolicy, check_asked
from spade.app.evaluation.run import delete_run, derive_pinned_settings, publish_policy
from spade.app.evaluation.servers import choose_address, wait_for_gateway
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.app.supervisor.up import keep_up
from spade.config import Config, load
from spade.disk import expand_home, refuse_linked_folders
from spade.errors import ConfigError
from spade.keyfiles import describe_exposure, read_key
from spade.locks import hold_folder
from spade.text import SHORT_DIGEST, as_line
from spade.transport import Client
from spade.transport.keys import make_command_tag

SERVING = "serving"
_MOST_TOKENS = 32_768  # largest default context, because the key-value store of a longer one takes much memory

Say = Callable[[str], None]


class ServeOptions(NamedTuple):
    """The options of `spade serve`, as they were typed."""

    model: str
    """A run or a model."""

    host: str
    """The address to listen at."""

    port: int
    """The port. 0 takes any free port."""

    key: str
    """The file of the key that clients must send. "" lets every client in."""

    live: bool
    """True to serve the newest policy of a live run."""

    policy: str
    """The policy to pin."""

    config: str | None
    """A recipe or TOML file that replaces the run's config, or None."""

    overrides: Sequence[str]
    """Settings as in `--set`."""


def serve(asked: ServeOptions, say: Say) -> None:
    """Serve until a signal, or until the live run ends. Raises SpadeError if a policy or a process fails."""
    if asked.live:
        _serve_live(asked, say)
        return
    check_asked(asked.policy)
    subject = Subject.of(asked.model, asked.config)
    with subject.pinned(asked.policy, None, asked.overrides) as policy:
        if policy.folder is None:
            raise ConfigError(f"--policy {asked.policy}: its weights are gone")
        config = _derive_settings(subject, policy, asked)
        _check_key(config, say)
        with ExitStack() as folders:
            run = folders.enter_context(ServingFolder(subject.root, config, "replay"))
            say(f"the policy is {policy.digest[:SHORT_DIGEST]} ({policy.name}); its processes run in {run.path}")
            actor = partial(launches.make_actor_launch, run, config, run.replay_address, "")
            services = [
                launches.make_replay_launch(run, config, ""),
                launches.make_gateway_launch(run, config, run.replay_address, ""),
            ]
            body = partial(_publish, run, config, policy, say)
            trio.run(partial(keep_up, run, config, launches=services, actor=actor, body=body))


def _derive_settings(subject: Subject, policy: PinnedPolicy, asked: ServeOptions) -> Config:
    """Derive the config of a pinned policy's processes."""
    given = load(subject.base)
    own = given.engine.context_tokens
    context = own if subject.run or asked.config else min(subject.model_facts.context_tokens, _MOST_TOKENS)
    others = {**_make_address(asked, _name(subject.run, asked)), "actors.runners": 0}
    assert policy.folder is not None
    return derive_pinned_settings(subject.base, asked.overrides, policy.folder, subject.dtype, context, others)


def _serve_live(asked: ServeOptions, say: Say) -> None:
    """Join a run that is up, and follow its newest policy."""
    run = RunDir(Path(asked.model)).require()
    run.refuse_links()
    if asked.policy != "newest" or asked.config:
        raise ConfigError("--live: follows the run's newest policy by its config; leave --policy and --config out")
    written = [f"{name}={json.dumps(value)}" for name, value in _make_address(asked, _name(run, asked)).items()]
    config = load(str(run.config_path), (*written, *asked.overrides))
    _check_key(config, say)
    address = run.replay_address
    with ServingFolder(run.path, config, "gateway") as folder:
        tag = f"-{make_command_tag(config.bus)}"
        say(f"joining {address} to serve its newest policy; logs in {folder.logs}")
        orders = [launches.make_gateway_launch(folder, config, address, tag)]
        body = partial(_tell, config, say)
        trio.run(partial(keep_up, folder, config, launches=orders, address=address, body=body))


def _make_address(asked: ServeOptions, name: str) -> dict[str, object]:
    key = str(expand_home(asked.key).absolute()) if asked.key else ""
    return {"serve.address": choose_address(asked.host, asked.port), "serve.key": key, "serve.name": name}


def _check_key(config: Config, say: Say) -> None:
    """Say it if others may read the key that clients must send. Raises ConfigError if the key cannot be read."""
    read_key(config.serve.key, "serve.key")
    if exposed := describe_exposure(config.serve.key):
        say(exposed)


def _name(run: RunDir | None, asked: ServeOptions) -> str:
    """Return the model's name for clients: the name of the run's folder, or the model as requested."""
    return run.path.name if run is not None else asked.model


async def _publish(run: RunDir, config: Config, policy: PinnedPolicy, say: Say, client: Client) -> None:
    async with publish_policy(run, config, policy):
        await _tell(config, say, client)


async def _tell(config: Config, say: Say, client: Client) -> None:
    """Print the address once it answers. Then wait until cancelled."""
    gateway = await wait_for_gateway(config, client)
    say(f"serving {as_line(config.serve.name)} at {gateway.url}; Ctrl-C stops it")
    await trio.sleep_forever()


class ServingFolder:
    """The run directory of one `spade serve`, below `root`/serving. The command holds the lock of its `part`.

    The directory is deleted at the end. After an error or a kill it stays, and the next `spade serve` deletes it.
    """

    def __init__(self, root: Path, config: Config, part: str) -> None:
        self._root, self._place = root, root / SERVING
        self._run = RunDir(self._place / f"serve-{os.getpid()}")
        self._config = config
        self._lock = self._run.lock(part)

    def __enter__(self) -> RunDir:
        self._root.mkdir(parents=True, exist_ok=True)
        with hold_folder(self._root):  # otherwise this command could delete the folder that another command is making
            refuse_linked_folders(self._place)
            for left in self._place.glob("serve-*"):
                if not RunDir(left).holders():
                    delete_run(RunDir(left))
            self._lock.__enter__()
            self._run.create(self._config)
        return self._run

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with hold_folder(self._root):
            self._lock.__exit__(None, None, None)
            if kind is None or kind is KeyboardInterrupt:  # after an error the logs stay, because they explain it
                delete_run(self._run)
