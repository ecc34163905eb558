"""Programs that write frames no decoder should fall over: at import, as they are built, at reset, at each step.

Each writes one frame with the nonce of the request and waits; so the host surely reads that frame, not the child's end.
"""

from tests.hostile.hostile import Hostile, attack
from tests.hostile.lies import FRAMES

SAY = f"""{FRAMES}
import time
def say(body):
    frame = raw(body.replace(b"$", nonce().encode()))
    while frame:
        frame = frame[os.write(24, frame):]
    time.sleep(99)
"""
_OBSERVED = '{"nonce":"$","is":"observed","text":"%s","reward":%s,"terminated":true,"truncated":false}'


def _observed(text: str = "", reward: str = "1.0") -> bytes:
    return (_OBSERVED % (text, reward)).encode()


BODIES: dict[str, str] = {
    "bad UTF-8 in the nonce": repr(b'{"nonce":"\xff","is":"observed"}'),
    "bad UTF-8 in a key": repr(b'{"\xff":1,"is":"observed"}'),
    "bad UTF-8 in the tag": repr(b'{"nonce":"$","is":"\xff"}'),
    "bad UTF-8 in the kind of a fault": repr(b'{"nonce":"$","is":"fault","kind":"\xc3\x28","stage":"play","detail":""}'),
    "a surrogate in UTF-8": repr(_observed().replace(b'"text":""', b'"text":"\xed\xa0\x80"')),
    "a lone surrogate": repr(_observed("\\ud800")),
    "arrays before the tag": "b'{\"nonce\":' + b'[' * 10 ** 5",
    "arrays that close before the tag": "b'{\"nonce\":' + b'[' * 10 ** 5 + b']' * 10 ** 5 + b',\"is\":\"observed\"}'",
    "objects before the tag": "b'{\"a\":' * 10 ** 5",
    "objects in an unknown field": "b'{\"is\":\"observed\",\"more\":' + b'{\"a\":' * 10 ** 5",
    "a reward of NaN": repr(_observed(reward="NaN")),
    "a reward of Infinity": repr(_observed(reward="-Infinity")),
    "a reward of 10^400": "b'" + _observed(reward="1%s").decode() + "' % (b'0' * 400)",
    "a reward of a million digits": "b'" + _observed(reward="%s").decode() + "' % (b'9' * 10 ** 6)",
    "an exponent of a million": repr(_observed(reward="1e1000000")),
    "keys twice": repr(b'{"nonce":"$","is":"observed","is":"loaded","name":"x"}'),
    "the nonce twice": repr(_observed().replace(b"{", b'{"nonce":"0",', 1)[:-1] + b',"nonce":"1"}'),
    "a nonce of a megabyte": "b'{\"nonce\":\"' + b'0' * 10 ** 6 + b'\",\"is\":\"loaded\",\"name\":\"x\"}'",
    "a tag of control characters": repr(b'{"nonce":"$","is":"\\u001b[2J\\u0000\\u202e"}'),
    "UTF-16": repr('{"is":"observed"}'.encode("utf-16")),
    "cut in the middle of a character": repr(b'{"nonce":"\xf0\x9f'),
}  # fmt: skip

PROGRAMS: list[Hostile] = [
    attack(f"{name}, at {where}", f"say({body})", "protocol", where=where, module=SAY)
    for name, body in BODIES.items()
    for where in ("step", "reset")
] + [
    attack(f"{name}, at import", "pass", "protocol", module=f"{SAY}\nsay({body})") for name, body in BODIES.items()
] + [
    attack(f"{name}, as it is built", f"say({body})", "protocol", where="init", module=SAY)
    for name, body in list(BODIES.items())[:1]
]  # fmt: skip
