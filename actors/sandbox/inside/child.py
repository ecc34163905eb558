"""The process of one episode. For each request it lets the program answer and writes exactly one frame.

A frame is a length (little-endian uint32) and JSON of this many bytes. The host trusts no frame of a child.
"""

import json
import os
from typing import Any, NoReturn

from . import execution
from .given import ToolUseBaseEnv
from .judging import JudgingEnv, JudgingProgram
from .messages import EXECUTION_BYTES, FRAME_BYTES, LENGTH
from .program import Answer, LoadedProgram, ProgramError, run_module
from .tools.runtime import ToolProgram


def serve(channel: int) -> NoReturn:
    """Answer until the host closes the channel."""
    environment: LoadedProgram | None = None
    while True:
        request = json.loads(read(channel))
        try:
            if request["do"] == "load":
                environment = load(request["source"], request["max_turns"], request["observation_bytes"])
                frame = pack_answer(environment.loaded(), request["nonce"])
            else:
                frame = pack_answer(perform(environment, request), request["nonce"])
        except ProgramError as error:
            fault: Answer = {"is": "fault", "kind": error.kind, "stage": error.stage, "detail": error.reason}
            frame = pack_answer(fault, request["nonce"])
        while frame:
            frame = frame[os.write(channel, frame) :]


def load(source: str, max_turns: int, observation_bytes: int) -> LoadedProgram:
    """Load a program. Its base class decides which subclass of LoadedProgram plays it."""
    kind, repairs = run_module(source)
    played: type[LoadedProgram] = LoadedProgram
    if issubclass(kind, ToolUseBaseEnv):
        played = ToolProgram
    elif issubclass(kind, JudgingEnv):
        played = JudgingProgram
    return played(kind, repairs, max_turns, observation_bytes)


def perform(environment: LoadedProgram | None, request: dict[str, Any]) -> Answer:
    """Answer a request on a loaded program, or execute code in a process that has loaded no program."""
    if request["do"] == "execute":
        return {"is": "executed", "output": execution.run_code(request["code"], request["function"], request["given"])}
    assert environment is not None, "the host loads before it plays"
    match request["do"]:
        case "reset":
            return environment.reset(request["seed"])
        case "step":
            return environment.step(request["action"])
        case "resume":
            assert isinstance(environment, JudgingProgram), "the host resumes a program that wants an execution"
            return environment.resume(request["output"])
        case "act":
            assert isinstance(environment, ToolProgram), "the host sends calls to programs with tools"
            return environment.act(request["calls"], request["answer"])
        case "inspect":
            assert isinstance(environment, ToolProgram), "the host inspects programs with tools"
            return environment.inspect()
        case _:
            return environment.solve()


def read(channel: int) -> bytearray:
    """Read the body of the next frame. Ends the process at the end of the channel."""
    data = bytearray()  # a program may be megabytes long
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        more = os.read(channel, 1 << 16)
        if not more:
            os._exit(0)
        data += more
    return data[LENGTH.size :]


def pack_answer(answer: Answer, nonce: str) -> bytes:
    """Encode an answer as a frame. Raises ProgramError if it is too long."""
    body = json.dumps(answer | {"nonce": nonce}, ensure_ascii=False, allow_nan=False).encode()
    most = EXECUTION_BYTES if answer["is"] in ("wanted", "executed") else FRAME_BYTES
    if len(body) > most:
        raise ProgramError("protocol", "play", f"the answer takes {len(body)} bytes, more than {most}")
    return LENGTH.pack(len(body)) + body
