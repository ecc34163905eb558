"""Programs that forge the protocol, answer nonsense, or turn the interpreter against us."""

from tests.hostile.hostile import ANSWERED, Hostile, answer, attack

FRAMES = """
import json, struct
def frame(**fields):
    answer = {"nonce": "0" * 16, "is": "observed", "text": "won", "reward": 1, "terminated": True, "truncated": False}
    return raw(json.dumps(answer | fields).encode())
def raw(body):
    return struct.pack("<I", len(body)) + body
def nonce():
    up = sys._getframe()
    while "request" not in up.f_locals:
        up = up.f_back
    return up.f_locals["request"]["nonce"]
"""
LOST = ("protocol", "timeout", "died")


def forge(name: str, code: str, *sees: str) -> Hostile:
    """Code that writes to the channel by itself; after the first turn the host asks for another.

    Of a process that writes and ends at once, the host may hear the end before it reads.
    """
    return answer(name, '"on", 0.0, False, False, {}', *sees, code=code, module=FRAMES)


PROTOCOL = [
    forge("garbage on every descriptor", "for fd in range(64):\n    try:\n        os.write(fd, b'garbage')\n    except OSError:\n        pass", *LOST),
    forge("a frame with a nonce of its own", "os.write(24, frame())", *LOST),
    forge("an answer and another one", "os.write(24, frame(nonce=nonce(), terminated=False))", *LOST),
    forge("two answers at once", "os.write(24, frame(nonce=nonce(), terminated=False) * 2)", *LOST),
    forge("an old nonce", "global old\nif 'old' in globals():\n    os.write(24, frame(nonce=old))\n    os._exit(0)\nold = nonce()", "protocol", "died"),
    forge("its own answer, and an end", "os.write(24, frame(nonce=nonce(), terminated=False))\nos._exit(0)", "died"),
    forge("its own answer with a great reward", "os.write(24, frame(nonce=nonce(), reward=1e9))\n__import__('time').sleep(99)", "reward"),
    forge("its own answer with a reward of NaN", "os.write(24, frame(nonce=nonce(), reward=float('nan')))\nos._exit(0)", "protocol", "died"),
    forge("a reward of many digits", "os.write(24, raw(b'{\"nonce\": \"' + nonce().encode() + b'\", \"is\": \"observed\", \"text\": \"\", \"terminated\": false, \"truncated\": false, \"reward\": ' + b'9' * 5000 + b'}'))\nos._exit(0)", "protocol", "reward", "died"),
    forge("fields we do not know", "os.write(24, frame(nonce=nonce(), admin=True))\nos._exit(0)", "protocol", "died"),
    forge("an answer of another kind", "os.write(24, raw(json.dumps({'nonce': nonce(), 'is': 'loaded', 'name': 'x'}).encode()))\nos._exit(0)", "protocol", "died"),
    forge("a field of another type", "os.write(24, frame(nonce=nonce(), terminated='yes'))\nos._exit(0)", "protocol", "died"),
    forge("a field missing", "os.write(24, raw(json.dumps({'nonce': nonce(), 'is': 'observed'}).encode()))\nos._exit(0)", "protocol", "died"),
    forge("a fault of a kind we do not know", "os.write(24, raw(json.dumps({'nonce': nonce(), 'is': 'fault', 'kind': 'infrastructure', 'stage': 'play', 'detail': ''}).encode()))\nos._exit(0)", "protocol", "died"),
    forge("no JSON", "os.write(24, raw(b'won'))\nos._exit(0)", "protocol", "died"),
    forge("no UTF-8", "os.write(24, raw(b'\"\\xff\\xfe\"'))\nos._exit(0)", "protocol", "died"),
    forge("JSON without a bottom", "os.write(24, raw(b'[' * 10 ** 5))\nos._exit(0)", "protocol", "died"),
    forge("an empty frame", "os.write(24, raw(b''))\nos._exit(0)", "protocol", "died"),
    forge("a frame of four gigabytes", "os.write(24, b'\\xff' * 8)\nos._exit(0)", "protocol", "died"),
    forge("a frame over a mebibyte", "data = raw(b'x' * (2 ** 20 + 1))\nwhile data:\n    data = data[os.write(24, data):]\nos._exit(0)", "protocol", "died"),
    forge("half a frame, then silence", "os.write(24, frame(nonce=nonce())[:20])\n__import__('time').sleep(99)", "timeout"),
    forge("half a frame, then the end", "os.write(24, frame(nonce=nonce())[:20])\nos._exit(0)", "died"),
    forge("half a length", "os.write(24, b'\\1')\nos._exit(0)", "died"),
    forge("a frame a byte at a time, and one too many", "for byte in frame(nonce=nonce(), terminated=False) + b'x':\n    os.write(24, bytes([byte]))\nos._exit(0)", "protocol", "died"),
    forge("a flood", "while True:\n    os.write(24, b'x' * 65536)", "protocol", "died"),
    forge("the channel closed", "os.close(24)", "died"),
    forge("the channel closed, and a loop", "os.close(24)\nwhile True: pass", "died", "timeout"),
    forge("a byte between two requests", "signal.signal(signal.SIGALRM, lambda *a: os.write(24, b'x'))\nsignal.setitimer(signal.ITIMER_REAL, 0.02)", "protocol", "timeout"),
    forge("a frame between two requests", "signal.signal(signal.SIGALRM, lambda *a: os.write(24, frame()))\nsignal.setitimer(signal.ITIMER_REAL, 0.02)", "protocol", "timeout"),
    forge("our requests eaten", "signal.signal(signal.SIGALRM, lambda *a: os.read(24, 65536))\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.001)", *LOST),
]  # fmt: skip

EVIL = """
class Number(float):
    def __float__(self): return 1.0
    def __abs__(self): return 0.0
    def __eq__(self, other): return True
class Text(str):
    def encode(self, *a, **k): return b"x" * 10 ** 7
    def __str__(self): return self
    def __len__(self): return 1
class Five(tuple):
    def __len__(self): return 5
    def __iter__(self):
        while True: yield ""
class Pair(tuple):
    def __len__(self): return 2
class Info(dict):
    def __iter__(self): raise SystemExit
    def keys(self): raise SystemExit
class Meta(type):
    __name__ = property(lambda c: 1 / 0)
class Nameless(metaclass=Meta): pass
"""


def pays(name: str, reward: str) -> Hostile:
    return answer(f"a reward of {name}", f'"on", {reward}, True, False, {{}}', "reward", module=EVIL)


REWARDS = [
    pays("NaN", "float('nan')"), pays("infinity", "float('inf')"), pays("minus infinity", "-float('inf')"),
    pays("1e300", "1e300"), pays("eleven", "11"), pays("400 digits", "10 ** 400"), pays("text", "'1'"),
    pays("nothing", "None"), pays("a complex number", "1j"), pays("a list", "[1.0]"), pays("bytes", "b'1'"),
    pays("an evil float", "Number(1)"), pays("the class of a float", "float"),
    pays("a decimal", "__import__('decimal').Decimal(1)"), pays("a fraction", "__import__('fractions').Fraction(1)"),
    pays("an object without a name", "Nameless()"),
]  # fmt: skip

SHAPES = [
    answer("four values", '"on", 0.0, True, False', "protocol"),
    answer("six values", '"on", 0.0, True, False, {}, 0', "protocol"),
    answer("no values", "None", "protocol"),
    answer("a list of values", '["on", 0.0, True, False, {}]', "protocol"),
    answer("a generator", '(x for x in ("on", 0.0, True, False, {}))', "protocol"),
    answer("a coroutine", "later()", "protocol", module="async def later(): pass"),
    answer("an evil tuple", "Five(())", "protocol", module=EVIL),
    answer("an answer without a name", "Nameless()", "protocol", "died", module=EVIL),
    answer("a flag of 1", '"on", 0.0, 1, False, {}', "protocol"),
    answer("a flag of text", '"on", 0.0, False, "no", {}', "protocol"),
    answer("a flag of nothing", '"on", 0.0, None, False, {}', "protocol"),
    answer("info of a list", '"on", 0.0, False, False, []', "protocol"),
    answer("evil info", '"on", 0.0, True, False, Info()', ANSWERED, "protocol", module=EVIL),
    answer("a million bytes", '"x" * 10 ** 6, 0.0, False, False, {}', "protocol"),
    answer("gigabytes", '"x" * 10 ** 10, 0.0, False, False, {}', "exception"),
    answer("wide characters", "'\\U0001f600' * 100_000, 0.0, False, False, {}", "protocol"),
    answer("escapes", "'\\0' * 250_000, 0.0, False, False, {}", "protocol"),
    answer("bytes for an observation", 'b"on", 0.0, False, False, {}', "protocol"),
    answer("nothing for an observation", "None, 0.0, False, False, {}", "protocol"),
    answer("an evil text", 'Text("on"), 0.0, True, False, {}', "protocol", ANSWERED, module=EVIL),
    answer("half a character", "'\\ud800', 0.0, True, False, {}", ANSWERED),
    attack("an exception without end", "raise ValueError('x' * 10 ** 7)"),
    attack("an exception of half characters", "raise ValueError('\\ud800' * 99)"),
    attack("an exception that cannot be told", "raise Mute()", module="class Mute(Exception):\n def __str__(self): raise SystemExit"),
    attack("an exception without a name", "raise Odd()", "exception", "died", module="class Meta(type):\n __name__ = property(lambda c: 1 / 0)\nclass Odd(Exception, metaclass=Meta): pass"),
    attack("an exception of ours", "raise sys.modules['inside.program'].ProgramError('infrastructure', 'x', 'y')", "protocol"),
    attack("an exit in reset", "raise SystemExit(0)", where="reset"),
    attack("an interrupt", "raise KeyboardInterrupt"),
    attack("a group of exceptions", "raise BaseExceptionGroup('x', [SystemExit()])"),
]  # fmt: skip


def patch(name: str, code: str) -> Hostile:
    """Ruin something of ours behind the wall, then pay beyond the bound; any fault will do, a reward never comes."""
    kinds = ("exception", "timeout", "died", "protocol", "reward")
    return answer(f"patched {name}", '"breach", 1e9, True, False, {}', *kinds, code=code)


PATCHES = [
    patch("isinstance", "import builtins\nbuiltins.isinstance = lambda *a: True"),
    patch("len", "import builtins\nbuiltins.len = lambda x: 5"),
    patch("type", "import builtins\nbuiltins.type = lambda x: float"),
    patch("all builtins", "import builtins\nvars(builtins).clear()"),
    patch("finiteness", "import math\nmath.isfinite = lambda x: True"),
    patch("JSON", "import json\njson.dumps = lambda *a, **k: '{}'"),
    patch("writing", "os.write = lambda *a: 0"),
    patch("reading", "os.read = lambda *a: b''"),
    patch("struct", "import struct\nstruct.Struct.pack = 1"),
    patch("our module", "sys.modules['inside.program'].number = lambda x: 1e9"),
    patch("our class", "sys.modules['inside.program'].LoadedProgram.step = lambda *a: {'is': 'observed', 'text': 'breach', 'reward': 1e9, 'terminated': True, 'truncated': False}"),
    patch("our limits", "import gc\nfor x in gc.get_objects():\n    if type(x).__name__ == 'LoadedProgram': x.observation_bytes = 10 ** 9"),
    patch("our frames", "frame = sys._getframe()\nwhile frame:\n    frame.f_trace = lambda *a: a[0]\n    frame = frame.f_back\nsys.settrace(lambda *a: None)"),
    patch("all modules", "sys.modules.clear()"),
    patch("the class's code", "s = sys.modules['inside.child'].serve\ns.__code__ = (lambda channel: None).__code__"),
]  # fmt: skip

PROGRAMS: list[Hostile] = [*PROTOCOL, *REWARDS, *SHAPES, *PATCHES]
