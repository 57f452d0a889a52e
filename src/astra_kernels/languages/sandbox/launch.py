"""The trusted launcher: takes rights away from itself, then becomes the sandboxed command.

Run as a script, `python -I -S launch.py STATUS_FD`, with a JSON specification on standard input, so
that no code has to run between fork and exec of a process with threads. It stays alive above the
command, in a process-id namespace where the kernel allows one, and leaves no process behind.

It answers with two JSON lines on STATUS_FD: `{"sandbox"}` at the start, and at the end `{"returncode"}`
or `{"error"}`.
Landlock is documented in linux/landlock.h, the filter program in linux/filter.h and linux/seccomp.h.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_SECUREBITS = 1, 24, 22, 28
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
NO_ROOT_LOCKED = 0x2F  # NOROOT, NO_SETUID_FIXUP and KEEP_CAPS off, each of them locked
CLONE_NEWNS, MS_NOSUID_NODEV_NOEXEC, MS_REC, MS_PRIVATE = 0x00020000, 0b1110, 1 << 14, 1 << 18
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)

# linux/landlock.h: execute, write_file, read_file, read_dir, ..., refer, truncate, ioctl_dev
FS_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
FS_READ = 0b1101  # execute, read_file, read_dir
FS_DEVICE = 0b0110 | 1 << 14 | 1 << 15  # write_file, read_file, truncate, ioctl_dev
FS_FILE_ONLY = 0b0111 | 1 << 14 | 1 << 15
NET_TCP = 0b11  # bind, connect
SCOPE_ABSTRACT_UNIX_AND_SIGNALS = 0b11
SYS_LANDLOCK = (444, 445, 446)  # create_ruleset, add_rule, restrict_self; the same on every machine

# machine: (audit architecture, socket, io_uring_setup, add_key, request_key, keyctl, capset)
SYSCALLS = {
    "x86_64": (0xC000003E, 41, 425, 248, 249, 250, 126),
    "aarch64": (0xC00000B7, 198, 425, 217, 218, 219, 91),
}

libc = ctypes.CDLL(None, use_errno=True)


class SetupFailed(Exception):
    """The sandbox could not be built or the command could not be started."""


def check(result: int, what: str) -> int:
    """Raises SetupFailed with the reason that libc gave."""
    if result < 0:
        raise SetupFailed(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    return max(0, int(libc.syscall(SYS_LANDLOCK[0], None, ctypes.c_size_t(0), 1)))


def enter_namespaces(spec: dict[str, Any]) -> list[str]:
    """Leaves the host's System V objects, network and process ids; lists what was left.

    A command that reads /proc needs one of its own in a process-id namespace: the C library names
    threads through /proc/self/task, which the host's /proc shows under other ids. Where it cannot be
    mounted, as in some containers, the process ids stay the host's.
    """
    flags = CLONE_NEWIPC | (0 if spec["network"] else CLONE_NEWNET)
    names = ["ipc"] + ([] if spec["network"] else ["network"])
    if not spec["own_proc"]:
        flags, names = flags | CLONE_NEWPID, [*names, "process"]
    elif can_mount_proc():
        flags, names = flags | CLONE_NEWPID | CLONE_NEWNS, [*names, "process"]
    return names if unshare(flags) else []


def unshare(flags: int) -> bool:
    """Enters new namespaces, where needed in a user namespace that maps only the own user."""
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc.unshare(flags) == 0:
        return True
    if libc.unshare(flags | CLONE_NEWUSER) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def can_mount_proc() -> bool:
    """Tries it in a child, because a process-id namespace cannot be left again."""
    trial = os.fork()
    if trial == 0:
        if not unshare(CLONE_NEWPID | CLONE_NEWNS):
            os._exit(1)
        inner = os.fork()
        if inner == 0:
            os._exit(0 if mount_proc() else 1)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 1)
    return os.waitpid(trial, 0)[1] == 0


def mount_proc() -> bool:
    """Shows the processes of this namespace, and only those, in /proc of this mount namespace."""
    if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    return bool(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None) == 0)


def restrict_files(spec: dict[str, Any], abi: int) -> None:
    """Allows the listed paths, forbids the rest of the file system and TCP (Landlock)."""
    handled = FS_RIGHTS_BY_ABI[max(known for known in FS_RIGHTS_BY_ABI if known <= abi)]
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", 0 if spec["network"] else NET_TCP)
    if abi >= 6:
        attributes += struct.pack("=Q", SCOPE_ABSTRACT_UNIX_AND_SIGNALS)
    ruleset = check(
        libc.syscall(SYS_LANDLOCK[0], attributes, ctypes.c_size_t(len(attributes)), 0), "landlock"
    )
    own = ["/proc/self/task"] if spec["own_proc"] else []  # where threads are named
    for paths, rights in (
        (spec["readable"], FS_READ),
        (spec["writable"], handled),
        (spec["devices"], FS_DEVICE),
        (own, FS_READ | FS_DEVICE),
    ):
        for path in paths:
            try:
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            allowed = rights & handled
            if not Path(path).is_dir():
                allowed &= FS_FILE_ONLY
            rule = struct.pack("=Qi", allowed, handle)
            check(libc.syscall(SYS_LANDLOCK[1], ruleset, 1, rule, 0), f"landlock rule for {path}")
            os.close(handle)
    check(libc.syscall(SYS_LANDLOCK[2], ruleset, 0), "landlock")
    os.close(ruleset)


def socket_filter(network: bool, unix_sockets: bool) -> bytes:
    """A seccomp program: no socket families but the allowed, no io_uring, no kernel keyring."""
    audit, socket, *refused = SYSCALLS[platform.machine()][:6]
    deny, allow, kill = 0x00050001, 0x7FFF0000, 0x80000000  # EPERM; allow; kill the process
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    after_socket = [(equal, 0, 1, 1), (give, 0, 0, allow)] if unix_sockets else []
    checks: list[tuple[int, int, int, int]] = []
    if not network:
        checks = [(equal, 0, 2 + len(after_socket), socket), (load, 0, 0, 16), *after_socket]
        checks.append((give, 0, 0, deny))
    for number in refused:
        checks += [(equal, 0, 1, number), (give, 0, 0, deny)]
    program = [
        (load, 0, 0, 4),
        (equal, 1, 0, audit),
        (give, 0, 0, kill),
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # the x32 calls of x86-64 would have other numbers
        (give, 0, 0, deny),
        *checks,
        (give, 0, 0, allow),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def install_filter(program: bytes) -> None:
    """Puts the calling process and its children under a seccomp program."""
    holder = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(holder))
    check(libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


def drop_capabilities() -> None:
    """Makes root, and the root of a user namespace, an ordinary user for good."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    libc.syscall(SYSCALLS[platform.machine()][6], header, bytes(24))


def limit_resources(limits: dict[str, int]) -> None:
    """Sets the rlimits, never above what the hard limit already is."""
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def become(spec: dict[str, Any], known_machine: bool, parent: int) -> NoReturn:
    """Takes the rights away and executes the command; raises SetupFailed where that fails."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit_resources(spec["limits"])
    os.chdir(spec["cwd"])
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no-new-privs")
    command = spec["command"]
    program = socket_filter(spec["network"], spec["unix_sockets"]) if known_machine else b""
    if spec["bubblewrap"]:
        command = [command[0], *filter_for_bubblewrap(program), *command[1:]]
    else:
        if landlock_abi() > 0:
            restrict_files(spec, landlock_abi())
        if known_machine:
            drop_capabilities()
            install_filter(program)
    die_with(parent)
    try:
        os.execvpe(command[0], command, spec["environment"])
    except OSError as error:
        raise SetupFailed(f"{command[0]}: {error.strerror}") from error


def filter_for_bubblewrap(program: bytes) -> list[str]:
    """Hands bubblewrap the seccomp program, which it installs when its own set-up is done."""
    if not program:
        return []
    handle = os.memfd_create("seccomp", 0)
    os.write(handle, program)
    os.lseek(handle, 0, os.SEEK_SET)
    return ["--seccomp", str(handle)]


def start(spec: dict[str, Any], known_machine: bool) -> tuple[int, int]:
    """Forks the command; returns its process id and the pipe that tells why it did not start."""
    failed, fail = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            become(spec, known_machine, parent)
        except BaseException as error:  # the process edge: the reason must reach the supervisor
            os.write(fail, str(error).encode())
        os._exit(127)
    os.close(fail)
    return child, failed


def supervise(spec: dict[str, Any], known_machine: bool) -> dict[str, Any]:
    """Runs the command, reaping what it leaves, until the command itself has ended."""
    child, failed = start(spec, known_machine)
    status = 0
    while True:
        ended, status = os.wait()
        if ended == child:
            break
    reason = os.read(failed, 4096).decode()
    return {"error": reason} if reason else {"returncode": os.waitstatus_to_exitcode(status)}


def kill_descendants() -> None:
    """Kills every process below this one; they are all ours, because this one is a subreaper."""
    while True:
        listing = Path(f"/proc/self/task/{os.getpid()}/children")
        children = [int(word) for word in listing.read_text().split()] if listing.exists() else []
        for child in children:
            os.kill(child, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when `parent` ends, which may already be so."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in (parent, 0):
        os._exit(1)


def run(spec: dict[str, Any], status_fd: int) -> None:
    """Runs the command below this process and reports on `status_fd`."""
    known_machine = platform.machine() in SYSCALLS
    namespaces = [] if spec["bubblewrap"] else enter_namespaces(spec)
    report(status_fd, {"sandbox": describe(spec, namespaces, known_machine)})
    Path("/proc/self/oom_score_adj").write_text("500")  # the first to go when memory is short
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    die_with(spec["supervisor"])
    if "process" not in namespaces:
        report(status_fd, supervise(spec, known_machine))
        return
    me = os.getpid()
    init = os.fork()
    if init == 0:  # process 1 of the namespace: when it ends, the kernel kills all the others
        die_with(me)
        if spec["own_proc"]:
            mount_proc()
        report(status_fd, supervise(spec, known_machine))
        os._exit(0)
    os.waitpid(init, 0)


def report(status_fd: int, line: dict[str, Any]) -> None:
    """Writes one line to the supervisor."""
    os.write(status_fd, json.dumps(line).encode() + b"\n")


def describe(spec: dict[str, Any], namespaces: list[str], known_machine: bool) -> str:
    """Lists what holds the command, the strongest first."""
    abi = landlock_abi()
    landlock = f"landlock {abi}" if abi else "files not restricted"
    left = f"{' and '.join(namespaces)} namespaces" if namespaces else ""
    parts = ["bubblewrap"] if spec["bubblewrap"] else [landlock, left]
    parts += ["seccomp" if known_machine else "", "no-new-privs", "rlimits"]
    return ", ".join(part for part in parts if part)


def end_now(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Answers the supervisor's request to stop: everything below dies first."""
    kill_descendants()
    os._exit(1)


def main() -> None:
    """Reads the specification, runs it, and leaves no process behind."""
    status_fd = int(sys.argv[1])
    os.set_inheritable(status_fd, False)
    spec = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    signal.signal(signal.SIGTERM, end_now)
    try:
        run(spec, status_fd)
    except (SetupFailed, OSError) as error:
        report(status_fd, {"error": str(error)})
    kill_descendants()


if __name__ == "__main__":
    main()
