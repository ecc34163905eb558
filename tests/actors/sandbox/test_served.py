"""Programs of servers whose texts and messages are hostile. `tests/interop/test_openenv.py` plays real servers."""

import msgspec
import pytest

from actors.sandbox import open_sandbox
from actors.sandbox.served import ServedProgram, Session, read_served
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import LIMITS

SERVER = "http://127.0.0.1:9"
TEXT = f"class CountEnv(OpenEnvServerEnv):\n    server = {SERVER!r}\n    start = VALUE\n"
ODD = ("{[]}", "{[]: 1}", "{'a': 1j}", "{'a': ...}", "-" * 9_000 + "1", "2" + "**2" * 9_000, "'a'.b", "")


@pytest.mark.parametrize("value", ODD, ids=lambda value: value[:9])
def test_a_text_that_cannot_be_sent_to_a_server_names_none(value):
    assert read_served(TEXT.replace("VALUE", value)) is None
    assert read_served(TEXT.replace("VALUE", "{'a': [1, None, 0.5]}")).start == {"a": [1, None, 0.5]}


def test_a_long_text_is_not_parsed():
    assert read_served(TEXT.replace("VALUE", f"{{'a': {'1' * 4_000}}}")) is not None
    assert read_served(TEXT.replace("VALUE", f"{{'a': '{'1' * 600_000}'}}")) is None


@pytest.mark.parametrize("servers", [(), (SERVER,)])
async def test_an_odd_text_harms_its_own_play_alone(servers):
    """The host reads it, so an error there would end all plays."""
    async with open_sandbox(msgspec.structs.replace(LIMITS, servers=servers)) as sandbox:
        for value in ODD:
            opened = await sandbox.open("odd", TEXT.replace("VALUE", value), 1, 8)
            assert isinstance(opened, Faulted) and opened.environment_fault, opened
            sandbox.close("odd")
        source = (
            "class PlainEnv:\n    def reset(self, seed):\n        return 'Hello.', {}\n    def step(self, action):\n"
        )
        opened = await sandbox.open("plain", f"{source}        return '', 0.0, True, False, {{}}\n", 1, 8)
        assert isinstance(opened, Observed)
        sandbox.close("plain")


class Connection:
    """A connection to a server with one answer."""

    def __init__(self, answer):
        self.answer = answer

    async def send_message(self, message):
        pass

    async def get_message(self):
        return self.answer


@pytest.mark.parametrize("reward", ["1" + "0" * 400, "1e999", "-" + "9" * 400, "true", '"1"', "[]"])
async def test_a_reward_of_any_size_is_an_answer_or_a_fault(reward):
    answer = f'{{"type": "observation", "data": {{"observation": {{}}, "reward": {reward}}}}}'
    got = await Session(ServedProgram("CountEnv", SERVER), Connection(answer)).answer({"do": "reset", "seed": 1})
    assert (got["is"], got.get("kind", "protocol")) in {("observed", "protocol"), ("fault", "protocol")}
