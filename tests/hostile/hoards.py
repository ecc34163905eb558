"""Programs that take what no budget counted, go on computing unasked, or read the project through its libraries."""

from tests.hostile.hostile import Hostile, answer, attack, harmless
from tests.hostile.lies import FRAMES
from tests.hostile.time_and_memory import GREEDY

LIBC = "libc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = libc.mremap.restype = ctypes.c_long\n"
LIBC += "def checked(result):\n    if result == -1: raise MemoryError\n    return result\n"


def maps(name: str, code: str, where: str = "step") -> Hostile:
    return attack(name, code, module=LIBC, where=where) if where != "module" else attack(name, LIBC + code, where=where)


SHARED = [
    maps("memory that is shared by default", "import mmap\nmmap.mmap(-1, 600 << 20)"),
    maps("a little memory that is shared", "import mmap\nmmap.mmap(-1, 4096)"),
    maps("shared memory at import", "import mmap\nHOARD = mmap.mmap(-1, 200 << 20)", where="module"),
    maps("shared memory in reset", "import mmap\nself.hoard = mmap.mmap(-1, 200 << 20)", where="reset"),
    maps("shared memory of C", "checked(libc.mmap(None, 1 << 20, 3, 0x21, -1, 0))"),
    maps("shared memory that is validated", "checked(libc.mmap(None, 1 << 20, 3, 0x23, -1, 0))"),
    maps("shared memory for reading", "checked(libc.mmap(None, 1 << 20, 1, 0x21, -1, 0))"),
    maps("shared memory without reserve", "checked(libc.mmap(None, 1 << 20, 3, 0x4021, -1, 0))"),
    maps("shared memory of the zero device", "os.open('/dev/zero', os.O_RDONLY)"),
    maps("the channel as memory", "checked(libc.mmap(None, 4096, 3, 0x01, 24, 0))"),
    maps("memory of huge pages", "checked(libc.mmap(None, 1 << 21, 3, 0x40022, -1, 0))"),
    maps("a private page twice", "page = checked(libc.mmap(None, 4096, 3, 0x22, -1, 0))\nchecked(libc.mremap(ctypes.c_long(page), 0, 4096, 1))"),
    maps("shared memory of multiprocessing", "from multiprocessing.shared_memory import SharedMemory\nSharedMemory(create=True, size=1 << 20)"),
    maps("an array of multiprocessing", "import multiprocessing\nmultiprocessing.RawArray('b', 1 << 20)"),
    maps("a value of multiprocessing", "import multiprocessing\nmultiprocessing.Value('i')"),
    maps("numpy's memory of a file", "import numpy\nnumpy.memmap('$FOLDER/secret', mode='r')"),
    maps("one great array", "import numpy\nnumpy.ones(600 << 20, dtype=numpy.int8)"),
]  # fmt: skip

BURN = "import time\ndef burn(*a):\n    end = time.process_time() + 30\n    while time.process_time() < end: pass\n"


def burns(name: str, code: str, module: str = "") -> Hostile:
    """It answers at once, and computes for half a minute while nobody asks."""
    return answer(name, '"on", 0.0, False, False, {}', "timeout", code=code, module=BURN + module)


UNASKED = [
    burns("computing after an alarm", "signal.signal(signal.SIGALRM, burn)\nsignal.setitimer(signal.ITIMER_REAL, 0.005)"),
    burns("computing in many short alarms", "def short(*a):\n    end = time.process_time() + 0.009\n    while time.process_time() < end: pass\nsignal.signal(signal.SIGALRM, short)\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.01)\nsys.modules['inside.child'].read = lambda channel: burn()"),
    burns("computing in place of waiting", "sys.modules['inside.child'].read = burn"),
    burns("computing before it waits", "child = sys.modules['inside.child']\nread = child.read\nchild.read = lambda channel: (burn(), read(channel))[1]"),
    burns("computing in a trace of our code", "def trace(frame, event, arg):\n    if frame.f_code.co_name == 'read': burn()\nsys.settrace(trace)"),
    burns("computing in a profile of our code", "def profile(frame, event, arg):\n    if frame.f_code.co_name == 'read': burn()\nsys.setprofile(profile)"),
    burns("computing after its own answer", "os.write(24, frame(nonce=nonce(), terminated=False))\nburn()", FRAMES),
    burns("sleeping, then computing", "os.write(24, frame(nonce=nonce(), terminated=False))\ntime.sleep(0.02)\nburn()", FRAMES),
]  # fmt: skip

EXHAUSTION = [
    attack("all descriptors by files", "x = []\nwhile True:\n    x.append(os.open('/dev/null', os.O_RDONLY))"),
    attack("all descriptors by sockets", "import socket\nx = []\nwhile True:\n    x.append(socket.socket())"),
    attack("all descriptors by copies", "while True:\n    os.dup(1)"),
    attack("all inodes by folders", "for i in range(10 ** 9):\n    os.mkdir(f'$FOLDER/{i}')"),
    attack("all inodes in memory", "for i in range(10 ** 9):\n    open(f'/dev/shm/{i}', 'w')"),
    attack("all process numbers", "x = []\nwhile True:\n    x.append(os.posix_spawn('/bin/true', ['true'], {}))"),
    attack("all process numbers by vfork", "libc = ctypes.CDLL(None)\nif libc.vfork() < 0: raise OSError"),
    attack("all threads", "while True:\n    threading.Thread(target=print).start()"),
    attack("all mappings", LIBC + "page = 4096\nwhile True:\n    checked(libc.mmap(None, page, 1, 0x22, -1, 0))\n    checked(libc.mmap(None, page, 3, 0x22, -1, 0))", *GREEDY),
    attack("timers of the kernel", "libc = ctypes.CDLL(None)\nif libc.timer_create(1, None, ctypes.create_string_buffer(8)): raise OSError"),
    attack("rings of asynchronous input", "libc = ctypes.CDLL(None)\nif libc.syscall({'x86_64': 206, 'aarch64': 0}[os.uname().machine], 9999, ctypes.create_string_buffer(8)): raise OSError"),
    attack("pending signals", "libc = ctypes.CDLL(None)\nwhile not libc.sigqueue(0, 40, 0): pass\nraise OSError"),
    attack("all randomness", "while True:\n    os.getrandom(10 ** 6)", "timeout"),
    attack("all turns of the scheduler", "while True:\n    os.sched_yield()", "timeout"),
    attack("barriers for all processors", "libc = ctypes.CDLL(None)\nwhile True:\n    libc.syscall({'x86_64': 324, 'aarch64': 283}[os.uname().machine], 1, 0, 0)", "timeout"),
    attack("open limits for files", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))"),
]  # fmt: skip


def heavy(name: str, code: str) -> Hostile:
    """In a child of the heavy zygote."""
    return attack(name, "import numpy as np\n" + code)


LIBRARIES = [
    heavy("the project read through numpy", "np.fromfile('$ROOT/README.md', dtype='u1')"),
    heavy("the project as numpy's text", "np.loadtxt('$ROOT/pyproject.toml', dtype=str, delimiter='\\n')"),
    heavy("the project as a table", "np.genfromtxt('$ROOT/pyproject.toml', dtype=str)"),
    heavy("the project as an array", "np.load('$ROOT/README.md', allow_pickle=True)"),
    heavy("an array written to a file", "np.save('$FOLDER/new.npy', np.zeros(3))"),
    heavy("the project beside numpy", "open('$ROOT/README.md').read()"),
    heavy("a secret beside numpy", "open('$FOLDER/secret').read()"),
    heavy("a list of the project beside numpy", "os.listdir('$ROOT')"),
    heavy("a name in the project beside numpy", "os.stat('$ROOT/README.md')"),
    heavy("the project imported beside numpy", "import spade"),
    heavy("our walls imported beside numpy", "import actors.sandbox.tiers"),
    heavy("the project imported by its path", "sys.path.append('$ROOT')\nimport spade.config"),
    heavy("a file of the project run", "import runpy\nrunpy.run_path('$ROOT/spade/errors.py')"),
    heavy("a file of the project loaded", "import importlib.util\nspec = importlib.util.spec_from_file_location('x', '$ROOT/spade/errors.py')\nspec.loader.exec_module(importlib.util.module_from_spec(spec))"),
    heavy("an importer of files put back", "import importlib.machinery as m\nsys.meta_path.append(m.PathFinder)\nsys.path_hooks.append(m.FileFinder.path_hook((m.SourceFileLoader, ['.py'])))\nsys.path.append('$ROOT')\nimport spade"),
    heavy("other packages beside numpy", "import msgspec"),
    heavy("a great package beside numpy", "import torch"),
    heavy("a source file of numpy", "open(np.__file__).read()"),
    heavy("the folder of numpy", "os.scandir(os.path.dirname(np.__file__))"),
    heavy("a library that numpy did not load", "ctypes.CDLL('libreadline.so.8')"),
    attack("the project imported", "import spade"),
    attack("the project by its path", "open('$ROOT/README.md').read()"),
    attack("a source file of the standard library", "open(os.__file__).read()"),
    attack("the folder of the standard library", "os.listdir(os.path.dirname(os.__file__))"),
    attack("an archive of modules", "import zipimport\nzipimport.zipimporter('$FOLDER/x.zip')"),
    attack("the space on the disk", "import shutil\nshutil.disk_usage('/')"),
    harmless("what is installed", "list(importlib.metadata.distributions())", "import importlib.metadata"),
    harmless("a line of the project", "linecache.getline('$ROOT/README.md', 1)", "import linecache"),
    harmless("names that match", "glob.glob('$ROOT/*') or glob.glob('/*')", "import glob"),
    harmless("the folder that we started in", "os.getcwd() != '/'"),
]  # fmt: skip

PROGRAMS: list[Hostile] = [*SHARED, *UNASKED, *EXHAUSTION, *LIBRARIES]
