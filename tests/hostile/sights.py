"""Programs that look for other processes, count them, or leave a mark for those that come after."""

import os

from tests.hostile.hostile import Hostile, attack, harmless

MACHINE = os.uname().machine
LIBC = "libc = ctypes.CDLL(None, use_errno=True)\nlibc.pthread_self.restype = ctypes.c_void_p\n"
WORD = "word = ctypes.c_uint(0)\n"
FUTEX, NANOSLEEP = {"x86_64": (202, 230), "aarch64": (98, 115)}[MACHINE]
THREAD_NUMBER = {"x86_64": 0x2D0, "aarch64": 0xD0}[MACHINE]  # in the GNU C library's description of a thread


def locks(name: str, operation: int) -> Hostile:
    """A futex that the kernel writes the number of the caller to."""
    code = (
        LIBC
        + WORD
        + f"libc.syscall({FUTEX}, ctypes.byref(word), {operation}, 0, 0, 0, 0)\nif not word.value: raise OSError"
    )
    return attack(name, code)


NUMBERS = [
    harmless("its own number", "os.getpid() != 0"),
    harmless("its parent's number", "os.getppid() != 0"),
    harmless("its thread's number", "threading.get_native_id() != 0"),
    harmless("its thread's number as Python keeps it", "threading.main_thread().native_id != 0"),
    harmless("its number in the C library", f"ctypes.c_int.from_address(libc.pthread_self() + {THREAD_NUMBER}).value not in (0, 1)", LIBC),
    harmless("its number in the clock of its thread", "~(clock >> 3) > 1", "import time\ntry:\n    clock = time.pthread_getcpuclockid(threading.get_ident())\nexcept OSError:\n    clock = -1"),
    locks("its number by a lock of the kernel", 6),
    locks("its number by a private lock of the kernel", 6 | 128),
    locks("its number by a lock that is tried", 8),
    locks("its number by a lock of another clock", 13),
    attack("the clock of a process", "import time\ntime.clock_gettime(~$VICTIM << 3 | 2)"),
    attack("the clock of a thread", "import time\ntime.clock_gettime(~$VICTIM << 3 | 6)"),
    attack("the precision of the clock of a process", "import time\ntime.clock_getres(~$VICTIM << 3 | 2)"),
    attack("sleep by the clock of a process", LIBC + f"times = (ctypes.c_long * 2)()\nlibc.syscall({NANOSLEEP}, ~$VICTIM << 3 | 2, 0, times, None)\nif ctypes.get_errno() == 1: raise OSError"),
    attack("all processes by their clocks", "import time\nfor pid in range(1, 70_000):\n    try:\n        time.clock_gettime(~pid << 3 | 2)\n        break\n    except OSError:\n        pass\nelse:\n    raise OSError"),
    attack("its own clock by its number", "import time\nfor pid in range(70_000):\n    try:\n        if time.clock_gettime(~pid << 3 | 2) > 0: break\n    except OSError:\n        pass\nelse:\n    raise OSError"),
    attack("processors of a process", "os.sched_getaffinity($VICTIM)"),
    attack("processors of the first process", "os.sched_getaffinity(1)"),
    attack("all processes by their processors", "for pid in range(1, 70_000):\n    try:\n        os.sched_getaffinity(pid)\n        break\n    except OSError:\n        pass\nelse:\n    raise OSError"),
    attack("the priority of another", "os.getpriority(os.PRIO_PROCESS, $VICTIM)"),
    attack("the group of another", "os.getpgid($VICTIM)"),
    attack("the session of another", "os.getsid($VICTIM)"),
    attack("the scheduler of another", "os.sched_getscheduler($VICTIM)"),
    attack("wait for a sibling", "os.waitpid(-1, os.WNOHANG)"),
    attack("how many processes there are", LIBC + "if libc.sysinfo(ctypes.create_string_buffer(512)): raise OSError"),
]  # fmt: skip

PROC = [
    attack("how many files a process has open", "os.stat('/proc/$VICTIM/fd').st_size"),
    attack("how many files it has open itself", "os.stat('/proc/self/fd').st_size"),
    attack("how many files the first process has open", "os.stat('/proc/1/fd').st_size"),
    attack("the link to itself", "os.readlink('/proc/self')"),
    attack("the link to its thread", "os.readlink('/proc/thread-self')"),
    attack("the names of all processes", "os.listdir('/proc')"),
    attack("its siblings as tasks", "os.scandir('/proc/self/task')"),
    attack("the status of itself", "open('/proc/self/status').read()"),
    attack("the channel's description", "open('/proc/self/fdinfo/24').read()"),
    attack("the load", "os.getloadavg()"),
    attack("the processors' counts", "open('/proc/stat').read()"),
    attack("the memory of the machine", "open('/proc/meminfo').read()"),
    attack("the pressure on memory", "open('/proc/pressure/memory').read()"),
    attack("the count of a control group", "open('/sys/fs/cgroup/pids.current').read()"),
    harmless("whether a process exists", "os.access('/proc/$VICTIM', os.F_OK)"),
    harmless("whether any process exists", "any(os.path.lexists(f'/proc/{pid}') for pid in range(1, 5_000))"),
    harmless("whether there is a /proc", "os.path.exists('/proc') or os.path.isdir('/proc/1')"),
]  # fmt: skip

MEMORY = [
    harmless("the frames of the zygote", "any(name != 'main' for name in names)", "frame, names = sys._getframe(), []\nwhile frame:\n    if 'zygote' in frame.f_code.co_filename:\n        names.append(frame.f_code.co_name)\n    frame = frame.f_back"),
    harmless("the zygote's state", "found", "import gc\ngc.unfreeze()\nfound = [each for each in gc.get_objects() if type(each).__name__ in ('ForkServer', 'epoll', 'socket', 'Confinement')]"),
    harmless("the zygote's command line", "any(sys.argv) or sys.orig_argv"),
    harmless("how often the zygote collected", "young > 200", "import gc\nyoung = gc.get_stats()[0]['collections']"),
    harmless("processes that ended before", "spent.ru_utime + spent.ru_stime > 0", "import resource\nspent = resource.getrusage(resource.RUSAGE_CHILDREN)"),
]  # fmt: skip

MARKS = [
    attack("a mark in the time of an access", "open(os.__file__).read(1)\nos.stat(os.__file__).st_atime_ns"),
    attack("a mark by a lock on what all share", "import fcntl\nfcntl.flock(1, fcntl.LOCK_EX)"),
    attack("a mark by the flags of what all share", "import fcntl\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)"),
    attack("a mark by an owner of what all share", "import fcntl\nfcntl.fcntl(1, fcntl.F_SETOWN, 0)"),
    attack("a mark by a lease of what all share", "import fcntl\nfcntl.fcntl(1, 1024, fcntl.F_RDLCK)"),
    harmless("a mark by the place in what all share", "os.lseek(1, 0, os.SEEK_CUR)", "os.lseek(1, 7, os.SEEK_SET)"),
    attack("a mark by the times of what all share", "os.utime(1)"),
    attack("a mark by what all share, made longer", "os.ftruncate(1, 7)"),
    attack("a mark in a queue of messages", "if ctypes.CDLL(None).msgget(7, 0o1666) < 0: raise OSError"),
    attack("a mark in a semaphore", "if ctypes.CDLL(None).semget(7, 1, 0o1666) < 0: raise OSError"),
    attack("a mark in the name of a process", "if ctypes.CDLL(None).prctl(15, b'mark'): raise OSError"),
    attack("a mark in what the page cache holds", "libc = ctypes.CDLL(None)\nif libc.mincore(ctypes.c_void_p(id(None) & ~4095), 4096, ctypes.create_string_buffer(8)): raise OSError"),
]  # fmt: skip

PROGRAMS: list[Hostile] = [*NUMBERS, *PROC, *MEMORY, *MARKS]
