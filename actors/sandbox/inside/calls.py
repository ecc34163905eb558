"""System calls by name: calls that a program may make, and calls that an honest program never makes.

A call in none of the tables returns EPERM, so that an honest mistake becomes a Python error.
"""

NUMBERS = {"x86_64": 0, "aarch64": 1}
"""For each machine, the column of the tables with its numbers."""

Table = dict[str, tuple[int | None, int | None]]

ALLOWED: Table = {
    "read": (0, 63),
    "write": (1, 64),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "close": (3, 57),
    "pread64": (17, 67),
    "getcwd": (79, 17),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getitimer": (36, 102),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "getrusage": (98, 165),
    "times": (100, 153),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "nanosleep": (35, 101),
    "restart_syscall": (219, 128),
    "select": (23, None),
    "pselect6": (270, 72),
    "poll": (7, None),
    "ppoll": (271, 73),
    "getrandom": (318, 278),
    "sched_yield": (24, 124),
    "membarrier": (324, 283),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

HELD: Table = {
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "sched_getaffinity": (204, 123),
}
"""Calls that are allowed if all their CONDITIONS hold."""

_ANY_CLOCK = ((0, 0xFFFF_FFF0, (0,)),)  # a negative number is another process's clock

CONDITIONS: dict[str, tuple[tuple[int, int, tuple[int, ...]], ...]] = {
    # Forbids PROT_EXEC. Forbids MAP_SHARED and MAP_HUGETLB, since the memory budget does not count them.
    "mmap": ((2, 0x4, (0,)), (3, 0x4_0001, (0,))),
    "mprotect": ((2, 0x4, (0,)),),
    # WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET. Other operations would reveal the process
    # number.
    "futex": ((1, 0x7F, (0, 1, 3, 4, 5, 9, 10)),),
    "clock_gettime": _ANY_CLOCK,
    "clock_getres": _ANY_CLOCK,
    "clock_nanosleep": _ANY_CLOCK,
    "sched_getaffinity": ((0, 0xFFFF_FFFF, (0,)),),
}
"""By call: (index of an argument, mask, values). The masked bits of the argument must equal one of the values. The high
half of an argument is ignored."""

ABSENT: Table = {
    "open": (2, None),
    "openat": (257, 56),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
}
"""Calls that return ENOENT: no path exists for a program, and imports come from memory."""

NOBODYS: Table = {"getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173)}
"""Calls that return 0. The real numbers would tell a program how many processes were started between two episodes."""

KILLED: Table = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "execve": (59, 221),
    "execveat": (322, 281),
    "personality": (135, 92),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "bpf": (321, 280),
    "seccomp": (317, 277),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
"""Calls that kill the process by SIGSYS, so that the fault names the reason."""


def number_calls(table: Table, machine: str) -> dict[str, int]:
    """Return the calls of a table that exist on a machine, with their numbers on that machine."""
    column = NUMBERS[machine]
    return {name: number for name, each in table.items() if (number := each[column]) is not None}
