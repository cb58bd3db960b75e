"""What a process may try that a hostile model has taken over, and what came of it.

In the language of Python 3.6 and by the standard library alone: it runs in converters, in toolkits
of the vendor, and as a program of another user: ``python attack.py ROLE PACKAGE GIVEN``, confined
by the package as that role (``none``: not at all), where GIVEN is JSON of the keywords of
``attack``.
"""

import ctypes
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
SYSCALLS = {
    name: numbers[0 if X86 else 1]
    for name, numbers in {
        "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241),
        "userfaultfd": (323, 282), "tkill": (200, 130), "tgkill": (234, 131),
        "rt_tgsigqueueinfo": (297, 240), "ioprio_set": (251, 30), "execveat": (322, 281),
        "memfd_create": (319, 279), "clone": (56, 220), "init_module": (175, 105),
        "personality": (135, 92), "seccomp": (317, 277), "io_uring_setup": (425, 425),
        "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "clone3": (435, 435),
        "mount_setattr": (442, 442), "fsopen": (430, 430), "settimeofday": (164, 170),
    }.items()
}  # fmt: skip


def checked(name, *arguments):
    """A function of the C library, or a call of the kernel; its error as Python has it."""
    made = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if name in SYSCALLS:
        found = LIBC.syscall(ctypes.c_long(SYSCALLS[name]), *made)
    else:
        found = getattr(LIBC, name)(*made)
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found


def rights():
    """The capabilities of this process, as a number."""
    head, found = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    LIBC.capget(head, found)
    return struct.unpack("=6I", found.raw)[1] | struct.unpack("=6I", found.raw)[4] << 32


def write(path, data=b"overwritten"):
    with open(path, "wb") as stream:
        stream.write(data)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def connect(family, kind, address):
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        one.connect(address)


def send_from_a_pair(address):
    """A pair of datagrams needs no socket of its own, and sends to any address."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", address)


def signal_by_a_pipe(victim):
    """The kernel sends a signal of choice to the owner of a descriptor."""
    reads, writes = os.pipe()
    try:
        fcntl.fcntl(reads, fcntl.F_SETOWN, victim)
        fcntl.fcntl(reads, 10, int(signal.SIGCONT))  # F_SETSIG
        fcntl.fcntl(reads, fcntl.F_SETFL, os.O_NONBLOCK | 0o20000)  # O_ASYNC
        os.write(writes, b"x")
    finally:
        os.close(reads)
        os.close(writes)


def rename(path, other):
    os.rename(path, other)
    os.rename(other, path)


def run_from_memory():
    handle = checked("memfd_create", b"x", 0)
    os.write(handle, b"#!/bin/sh\nexit 0\n")
    subprocess.Popen(["/proc/self/fd/%d" % handle], pass_fds=[handle]).wait()


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def read_memory(victim):
    kept = ctypes.create_string_buffer(8)
    mine = struct.pack("@PN", ctypes.addressof(kept), 8)
    found = LIBC.process_vm_readv(victim, mine, ctypes.c_ulong(1), mine, ctypes.c_ulong(1), 0)
    if found < 0 and ctypes.get_errno() != 14:  # EFAULT: it was looked for, and is not there
        raise OSError(ctypes.get_errno(), "process_vm_readv")


def trace(victim):
    checked("ptrace", 0x4206, victim, 0, 0)  # PTRACE_SEIZE
    checked("ptrace", 17, victim, 0, 0)


def of_other_processes(victim):
    return {
        "signal it": lambda: os.kill(victim, 0),
        "signal its thread": lambda: checked("tgkill", victim, victim, 0),
        "signal a thread alone": lambda: checked("tkill", victim, 0),
        "queue it a signal": lambda: checked("rt_tgsigqueueinfo", victim, victim, 18, bytes(128)),
        "signal all": lambda: os.kill(-1, 0),
        "signal the group": lambda: os.kill(0, 0),
        "signal by a pipe": lambda: signal_by_a_pipe(victim),
        "open it": lambda: checked("pidfd_open", victim, 0),
        "limit it": lambda: resource.prlimit(victim, resource.RLIMIT_CORE, (0, 0)),
        "slow it": lambda: os.setpriority(os.PRIO_PROCESS, victim, 1),
        "slow all of the user": lambda: checked("setpriority", 2, 0, 1),
        "slow its disk": lambda: checked("ioprio_set", 1, victim, 0x4007),
        "slow all disks of the user": lambda: checked("ioprio_set", 3, 0, 0x4007),
        "bind it to a core": lambda: os.sched_setaffinity(victim, {min(os.sched_getaffinity(0))}),
        "trace it": lambda: trace(victim),
        "read its memory": lambda: read_memory(victim),
        "read its environment": lambda: read("/proc/%d/environ" % victim),
        "read its command": lambda: read("/proc/%d/cmdline" % victim),
        "list processes": lambda: os.listdir("/proc"),
    }


def of_the_machine():
    return {
        "name the machine": lambda: socket.sethostname(socket.gethostname()),
        "set the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
        "share memory by a key": lambda: checked("shmget", 0x524B4E, 4096, 0o1600),
        "queue messages by a key": lambda: checked("msgget", 0x524B4E, 0o1600),
        "count by a key": lambda: checked("semget", 0x524B4E, 1, 0o1600),
        "read keys": lambda: checked("keyctl", 0, -3, 1),  # the ring of the session
        "ring of the kernel": lambda: checked("io_uring_setup", 1, bytes(120)),
        "program of the kernel": lambda: checked("bpf", 0, struct.pack("=4I", 2, 4, 4, 1), 16),
        "faults in user's hands": lambda: checked("userfaultfd", 1),
        "another machine": lambda: checked("personality", 8),
        "mount": lambda: checked("mount", b"none", b"/mnt", b"tmpfs", 0, None),
        "mount anew": lambda: os.close(checked("fsopen", b"tmpfs", 0)),
        "user namespace": lambda: checked("unshare", 0x10000000),
        "user namespace by clone": lambda: checked("clone", 0x10000011, 0, 0, 0, 0) or os._exit(0),
        "enter a namespace": lambda: checked("setns", os.open("/proc/self/ns/uts", 0), 0),
        "another root": lambda: os.chroot("/"),
        "be another user": lambda: os.setuid(65533),
    }  # fmt: skip


def of_files(target, secret, given, unix, folder):
    return {
        "write what is given": lambda: write(given),
        "write": lambda: write(target),
        "delete": lambda: os.unlink(target),
        "rename": lambda: rename(target, target + ".x"),
        "cut": lambda: os.truncate(target, 1),
        "make a file beside": lambda: write(target + ".new"),
        "make a folder": lambda: os.mkdir(target + ".folder"),
        "make a link": lambda: os.symlink("x", target + ".link"),
        "make a pipe": lambda: os.mkfifo(target + ".pipe"),
        "lead its reader elsewhere": lambda: os.symlink(secret, os.path.join(folder, "answer")),
        "have its reader wait": lambda: os.mkfifo(os.path.join(folder, "pipe")),
        "take it over by a link": lambda: os.link(target, os.path.join(folder, "linked")),
        "mode": lambda: os.chmod(target, 0o644),
        "times": lambda: os.utime(target, (1, 1)),
        "attribute": lambda: os.setxattr(target, "user.x", b"x"),
        "read a secret": lambda: read(secret),
        "read users": lambda: read("/etc/passwd"),
        "connect": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", unix[1])),
        "send": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9)),
        "connect by a file": lambda: connect(socket.AF_UNIX, socket.SOCK_DGRAM, unix[0]),
        "send from a pair": lambda: send_from_a_pair(unix[0]),
        "hear the kernel": lambda: connect(socket.AF_NETLINK, socket.SOCK_RAW, (0, 0)),
        "run": lambda: subprocess.check_call([unix[2]]),
        "run from memory": run_from_memory,
        "fork": fork,
    }


def of_its_own(given, folder):
    """What has to work."""
    return {
        "read what is given": lambda: read(given),
        "write its own": lambda: write(os.path.join(folder, "own"), b"x"),
        "remove its own": lambda: os.unlink(os.path.join(folder, "own")),
        "signal itself": lambda: os.kill(os.getpid(), 0),
        "limit itself": lambda: resource.setrlimit(
            resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
        ),
        "bind itself to its cores": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "start a thread": lambda: threading.Thread(target=time.time).start(),
        "a pair of its own": lambda: [one.close() for one in socket.socketpair()],
        "ask for memory": lambda: read("/proc/self/statm"),
    }


def attack(target, secret, given, folder, victim, unix, spared=()):
    """Try everything.

    Args:
        target: a file of the user, which stands in a folder of the user.
        secret: a file that no request named.
        given: a file that may be read.
        folder: that may be written in.
        victim: another process of the user.
        unix: the path of a socket of the user, a port that listens, a program.
        spared: names of what is not tried.

    Returns:
        What was tried -> ``done``, or the name of the error.
    """
    tries = of_its_own(given, folder)
    tries.update(of_other_processes(victim))
    tries.update(of_the_machine())
    tries.update(of_files(target, secret, given, unix, folder))
    said = {}
    for name, action in tries.items():
        if name in spared:
            continue
        try:
            action()
            said[name] = "done"
        except OSError as error:
            said[name] = os.strerror(error.errno) if error.errno else type(error).__name__
    return said


def lose(walls):
    """Have the kernel say that it lacks some walls, as older kernels and containers do."""
    from confine import filters, kernel

    errno = 0x50000
    program = [(0x20, 0, 0, 0)]
    if "landlock" in walls:
        program += [(0x15, 0, 1, 444), (0x06, 0, 0, errno | 38)]  # ENOSYS
    if "namespaces" in walls:
        program += [(0x15, 0, 1, 272 if X86 else 97), (0x06, 0, 0, errno | 1)]  # EPERM
    if "seccomp" in walls:
        program += [(0x15, 0, 3, 157 if X86 else 167), (0x20, 0, 0, 16)]
        program += [(0x15, 0, 1, 22), (0x06, 0, 0, errno | 22)]  # EINVAL
    kernel.prctl(38, 1, 0, 0, 0)
    if not filters.filter_calls([*program, (0x06, 0, 0, 0x7FFF0000)]):
        raise OSError("there are no filters of calls")


def main(role, package, given):
    sys.path.insert(0, os.path.dirname(package))
    import confine

    keywords = json.loads(given)
    lacks = keywords.pop("lacks", [])
    if lacks:
        lose(lacks)
    out, here = {"walls": None}, os.path.abspath(__file__)
    if role == "converter":
        out["walls"] = confine.confine_process([keywords["folder"]])
        confine.confine_thread([keywords["given"], keywords["folder"]])
    elif role != "none":
        out["walls"] = confine.confine_toolkit(
            [keywords["folder"]], [keywords["given"], here], [], role == "board"
        )
    out["rights"] = [rights()]
    if role in ("toolkit", "board"):  # what it starts gets no more, also of root
        code = "import runpy; print(runpy.run_path(%r)['rights']())" % here
        out["rights"].append(int(subprocess.check_output([sys.executable, "-I", "-c", code])))
    lines = read("/proc/self/net/dev").decode().splitlines()[2:]
    out["interfaces"] = [line.partition(":")[0].strip() for line in lines]
    out["said"] = attack(**keywords)
    sys.stdout.write(json.dumps(out) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
