"""Programs that never answer, and programs that take all there is."""

from tests.hostile.hostile import Hostile, answer, attack

LOOP = "while True:\n    pass"
GREEDY = ("exception", "timeout", "died")

LOOPS = [
    attack("loop at import", LOOP, "timeout", where="module"),
    attack("loop in the constructor", LOOP, "timeout", where="init"),
    attack("loop in reset", LOOP, "timeout", where="reset"),
    attack("loop in step", LOOP, "timeout"),
    attack("loop in a finaliser", "Late()", "timeout", module=f"class Late:\n def __del__(self):\n  {LOOP[:11]} pass"),
    attack(
        "loop in the text of an exception",
        "raise Slow()",
        "timeout",
        module=f"class Slow(Exception):\n def __str__(self):\n  {LOOP[:11]} pass",
    ),
    answer(
        "loop in the truth of a flag",
        '"on", 0.0, Slow(), False, {}',
        "protocol",
        module="class Slow:\n def __bool__(self):\n  while True: pass",
    ),
    answer(
        "loop in the float of a reward",
        '"on", Slow(), False, False, {}',
        "reward",
        module="class Slow:\n def __float__(self):\n  while True: pass",
    ),
    attack("loop in a metaclass", "class Meta(type):\n def __init__(c, *a):\n  while True: pass\nclass A(metaclass=Meta): pass", "timeout", where="module"),
    attack("loop in looking for a method", "class Meta(type):\n def __getattribute__(c, name):\n  while True: pass\nclass A(metaclass=Meta):\n reset = step = 1", "timeout", where="module"),
    attack("loop that swallows everything", "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass", "timeout"),
    attack("loop with signals ignored", "for s in set(signal.Signals) - {9, 19}:\n    signal.signal(s, signal.SIG_IGN)\n" + LOOP, "timeout"),
    attack("loop with signals blocked", "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n" + LOOP, "timeout"),
    attack("loop with the clocks of Python stopped", f"import time\nfor name in [*vars(time)]:\n    setattr(time, name, lambda *a: 0)\n{LOOP}", "timeout"),
    attack("loop with the limit of processor time raised", f"import resource\ntry:\n    resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))\nexcept (OSError, ValueError):\n    {LOOP.replace(chr(10), chr(10) + ' ' * 4)}", "timeout"),
    attack("compute between sleeps", "import time\nwhile True:\n    time.sleep(0.001)\n    sum(range(10 ** 5))", "timeout"),
    attack("sleep", "import time\ntime.sleep(10 ** 6)", "timeout"),
    attack("a lock taken twice", "lock = threading.Lock()\nlock.acquire()\nlock.acquire()", "timeout"),
    attack("wait for nothing", "import select\nselect.select([], [], [])", "timeout"),
    attack("count to infinity in C", "import itertools\nsum(itertools.repeat(1))", "timeout"),
    attack("loop in a trace function", "def forever(*a):\n    while True: pass\nsys.settrace(forever)\nprint()\n(lambda: 0)()", "timeout"),
    attack("loop in an audit hook", "def forever(*a):\n    while True: pass\nsys.addaudithook(forever)\ncompile('1', '', 'eval')", "timeout"),
    attack("loop in the garbage collector", "import gc\ndef forever(*a):\n    while True: pass\ngc.callbacks.append(forever)\ngc.collect()", "timeout"),
    answer(
        "loop after the answer",
        '"on", 0.0, False, False, {}',
        "timeout",
        code="def forever(*a):\n    while True: pass\nsignal.signal(signal.SIGALRM, forever)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)",
    ),
]  # fmt: skip

BOMBS = [
    attack("a number too big", "10 ** 10 ** 9", *GREEDY),
    attack("digits of a big number", "str(10 ** 5000)"),
    attack("a regular expression that explodes", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", "timeout"),
    attack("a source too deep for the compiler", "eval('-' * 200_000 + '1')", *GREEDY),
    attack("brackets too deep for the compiler", "compile('(' * 100_000, '', 'eval')", *GREEDY),
    attack("a module of a million lines", "exec('x = 1\\n' * 10 ** 7)", *GREEDY),
    attack("a zip bomb", "import zlib\nx = [zlib.decompress(zlib.decompress(bomb)) for _ in range(9)]", *GREEDY, module="import zlib\nbomb = zlib.compress(zlib.compress(bytes(2 ** 27)))"),
    attack("recursion in Python", "def f(): f()\nf()"),
    attack("recursion without a limit", "sys.setrecursionlimit(10 ** 9)\ndef f(): return [f()]\nf()", *GREEDY),
    attack("recursion in C", "sys.setrecursionlimit(10 ** 9)\nx = []\nfor _ in range(10 ** 6): x = [x]\nrepr(x)", *GREEDY),
    attack("brackets too deep for JSON", "import json\njson.loads('[' * 10 ** 7)", *GREEDY),
    attack("hashes that collide", "d = {i * (2 ** 61 - 1) + 1: 0 for i in range(10 ** 6)}", "timeout"),
    attack("a precise decimal", "import decimal\ndecimal.getcontext().prec = 10 ** 9\ndecimal.Decimal(1) / 3", *GREEDY),
    attack("a huge fraction", "from fractions import Fraction\nFraction(1, 3) ** (10 ** 9)", *GREEDY),
    attack("all permutations", "import itertools\nlist(itertools.permutations(range(24)))", *GREEDY),
    attack("a wide format", "'%*d' % (10 ** 12, 1)"),
    attack("factorials", "import math\nmath.factorial(10 ** 8)", *GREEDY),
]  # fmt: skip

MEMORY = [
    attack("one great bytearray", "bytearray(600 * 2 ** 20)"),
    attack("many objects", "x = []\nwhile True:\n    x.append([0] * 100)", *GREEDY),
    attack("memory errors swallowed", "x = []\nwhile True:\n    try:\n        x.append(bytes(10 ** 6))\n    except MemoryError:\n        pass", "timeout"),
    attack("one great mapping", "import mmap\nmmap.mmap(-1, 600 * 2 ** 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"),
    attack("many mappings", "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 2 ** 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))", *GREEDY),
    attack("shared mappings", "import mmap\nx = [mmap.mmap(-1, 2 ** 26, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) for _ in range(9)]"),
    attack("a file in memory", "os.memfd_create('x')"),
    attack("a file in shared memory", "open('/dev/shm/spade-hostile', 'w').write('x')"),
    attack("shared memory of System V", "if ctypes.CDLL(None).shmget(0, 2 ** 20, 0o1600) < 0: raise OSError"),
    attack("POSIX shared memory", "import _posixshmem\n_posixshmem.shm_open('/spade-hostile', os.O_CREAT | os.O_RDWR, 0o600)"),
    attack("locked pages", "if ctypes.CDLL(None).mlockall(3): raise OSError"),
    attack("the break", "libc = ctypes.CDLL(None)\nlibc.sbrk.restype = ctypes.c_long\nif libc.sbrk(ctypes.c_long(600 * 2 ** 20)) == -1: raise MemoryError"),
]  # fmt: skip

PROGRAMS: list[Hostile] = [*LOOPS, *BOMBS, *MEMORY]
