"""Programs of servers whose texts and messages are hostile. `tests/interop/test_openenv.py` plays real servers."""

import pytest

from actors.sandbox.served import ServerSession
from spade.pools.served import ServedProgram, read_served
from spade.protocol import Faulted

SERVER = "http://127.0.0.1:9"
TEXT = f"class CountEnv(OpenEnvServerEnv):\n    server = {SERVER!r}\n    start = VALUE\n"
ODD = ("{[]}", "{[]: 1}", "{'a': 1j}", "{'a': ...}", "-" * 9_000 + "1", "2" + "**2" * 9_000, "'a'.b", "")


@pytest.mark.parametrize("value", ODD, ids=lambda value: value[:9])
def test_a_text_that_cannot_be_sent_to_a_server_names_none(value):
    assert read_served(TEXT.replace("VALUE", value), [SERVER]) is None
    assert read_served(TEXT.replace("VALUE", "{'a': [1, None, 0.5]}"), [SERVER]).start == {"a": [1, None, 0.5]}


def test_a_long_text_is_not_parsed():
    assert read_served(TEXT.replace("VALUE", f"{{'a': {'1' * 4_000}}}"), [SERVER]) is not None
    assert read_served(TEXT.replace("VALUE", f"{{'a': '{'1' * 600_000}'}}"), [SERVER]) is None


async def test_an_odd_text_harms_its_own_play_alone(sandbox):
    """The env-runner looks at it, so an error there would end all plays."""
    for value in ODD:
        opened = await sandbox.open("odd", TEXT.replace("VALUE", value), 1, 8)
        sandbox.close("odd")
        assert isinstance(opened, Faulted), opened
        assert opened.environment_fault, opened


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
    got = await ServerSession(ServedProgram("CountEnv", SERVER), Connection(answer)).answer({"do": "reset", "seed": 1})
    assert got["is"] == ("observed" if reward == "true" else "fault")
    assert got.get("kind", "protocol") == "protocol"
