"""sandbox.py - compiles and runs what a student has written where it can do no harm.

A sandbox is bubblewrap's: user, process, network, mount and other namespaces of its own. It sees /usr and the files it is
given, read-only, and nothing else of this machine: no home, no /etc, no grader, no network but a loopback of its own.
Programs in it are nobody there, with limits on processor time, memory, processes and files, and a filter of system calls
(seccomp.py); what they print is read up to a limit. A grader that is root becomes a user that nobody else is first.

Where bubblewrap cannot make namespaces, nothing is run: Unusable says why.
"""
import contextlib
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import seccomp

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
# Public headers that a protocol may include: those that `meson install` installs.
HEADERS = ("xkernel", "protocols", "graphs", "platform/sim")
# ... and those of tests, and of labhost.c.
MORE_HEADERS = ("tests/compose.h", "tests/random.h", "tests/rig.h", "tests/rig_private.h", "tests/test.h", "tools/journey/journey.h")
FLAGS = ["-std=gnu11", "-O1", "-g1", "-Wall", "-fstack-clash-protection", "-fno-strict-aliasing", "-pthread"]

MIB = 1 << 20
COMPILE_S, COMPILE_MEMORY, COMPILE_PROCESSES = 30, 1024 * MIB, 64
SCRATCH = 128 * MIB  # files of a compiler, in memory
PROGRAM_MAX = 32 * MIB
RUN_S, RUN_MEMORY, RUN_PROCESSES = 5, 1024 * MIB, 1
TEST_S = 5  # of processor time for all tests of a program
TESTS_WAITING_S = 300  # for all runs of a student's tests
SILENCE_S = 10  # the longest wait for the answer to one step
# Costs of a student's host: limits for one run of a check, and for all checks of a lab.
STEPS, ANSWERS, WAITING = "steps", "MiB of answers", "seconds of waiting"
RUN_BUDGET = {ANSWERS: 32}
LAB_BUDGET = {STEPS: 250000, ANSWERS: 128, WAITING: 60}
SEARCH_BUDGET = {STEPS: 150000, ANSWERS: 64, WAITING: 180}  # and search.RUNS_MAX, search.SECONDS_MAX
AHEAD = 2  # hosts that wait for the next runs of a search
RECORD_COST = 256  # bytes that the grader may need for a record of an answer, besides the record's own
RECORD_MAX = MIB
TOLD = {"trace": b"s", "journey": b"j"}  # additional records that a process sends on request
TOLD_MAX = {b"s": 32 * MIB, b"j": 16 * MIB}  # for a run, including RECORD_COST; the rest is dropped
SAID_MAX = 4096


class Unusable(Exception):
    """A sandbox cannot be made here."""


class Refused(Exception):
    """The student's files cannot be taken, or do not compile."""


class Ended(Exception):
    """The student's process ended, is silent, costs too much, or does not speak as labhost.c does."""


class Budget:
    """Costs of a student's host, by name, and their limits. A run's budget is a part of that of `whole`: all checks, or a search."""

    def __init__(self, limits=None, whole=None, of="all checks"):
        self.limits, self.whole, self.of = LAB_BUDGET if limits is None else limits, whole, of
        self.spent = dict.fromkeys(self.limits, 0)
        self.over = None  # why nothing is left
        self.room = dict(TOLD_MAX)

    def run(self):
        """Returns the budget of one run."""
        return Budget(RUN_BUDGET, self, "a run")

    def spend(self, what, amount):
        """Adds a cost. Raises Ended if it is above a limit."""
        if what in self.limits:
            self.spent[what] += amount
            if self.spent[what] > self.limits[what]:
                self.over = f"used up its budget for {self.of}: {self.limits[what]} {what}"
                raise Ended(self.over)
        if self.whole is not None:
            self.whole.spend(what, amount)

    def has_room(self, kind, size):
        """Returns whether `size` more bytes of a trace or a journey are kept."""
        self.room[kind] -= size
        return self.room[kind] >= 0

    def left(self, what):
        """Returns, for a run's budget, the amount left of the whole."""
        return self.whole.limits[what] - self.whole.spent[what]


def plain(text):
    """Untrusted text without control characters."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in text.replace("\t", "    "))


def quoted(text):
    """Marks foreign lines, so that none looks like the grader's."""
    return "\n".join("| " + line for line in text.rstrip().splitlines())


def take(directory, name, limit=256 * 1024):
    """Returns the contents of a regular file of a student's: no link, no device, not too long."""
    path = os.path.join(directory, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as why:
        raise Refused(f"{name} cannot be read: {why.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"{name} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        contents = file.read(limit + 1)
    if len(contents) > limit:
        raise Refused(f"{name} is longer than {limit} bytes")
    return contents


class Limited:
    """A program's output, read up to a limit by a thread, so that the program never waits for us."""

    def __init__(self, stream, limit):
        self.stream, self.limit, self.bytes, self.over = stream, limit, bytearray(), False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while True:
            more = self.stream.read1(65536)
            if not more:
                return
            room = self.limit - len(self.bytes)
            self.over = self.over or len(more) > room
            self.bytes += more[:room]

    def end(self):
        self.thread.join(5)
        return bytes(self.bytes)


class Sandbox:
    def __init__(self, build):
        try:
            self.filter = seccomp.program()
        except (OSError, subprocess.CalledProcessError) as why:
            raise Unusable(f"the compiler does not list the system calls: {why}") from None
        self.directory = tempfile.mkdtemp(prefix="xk-grade-")
        os.chmod(self.directory, 0o755)
        self.user = self._user()
        self.tcp = None  # the program of a host that runs this project's TCP, once one is needed
        self.library = os.path.join(self.directory, "libxkernel.a")
        self.programs = os.path.join(self.directory, "libxkernel-programs.a")  # for journeys
        self.tree = os.path.join(self.directory, "tree")
        try:
            for path in (self.library, self.programs):
                shutil.copyfile(os.path.join(build, os.path.basename(path)), path)
        except OSError as why:
            self.close()
            raise Unusable(f"{build} has no library: {why.strerror}") from None
        for folder in HEADERS:
            for at, _, names in os.walk(os.path.join(ROOT, folder)):
                there = os.path.join(self.tree, os.path.relpath(at, ROOT))
                for name in names:
                    if name.endswith(".h") and not name.endswith("_private.h"):
                        os.makedirs(there, exist_ok=True)
                        shutil.copyfile(os.path.join(at, name), os.path.join(there, name))
        for name in MORE_HEADERS:
            os.makedirs(os.path.dirname(os.path.join(self.tree, name)), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, name), os.path.join(self.tree, name))
        shutil.copyfile(os.path.join(HERE, "labhost.c"), os.path.join(self.tree, "labhost.c"))
        for at, folders, names in os.walk(self.directory):
            for name in folders:
                os.chmod(os.path.join(at, name), 0o755)
            for name in names:
                os.chmod(os.path.join(at, name), 0o644)
        try:
            self._try()
        except Unusable:
            self.close()
            raise

    @staticmethod
    def _user():
        """For root, a user that owns nothing and runs nothing; otherwise None."""
        if os.getuid() != 0:
            return None
        taken = {entry.pw_uid for entry in pwd.getpwall()}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                taken.add(os.stat(f"/proc/{name}").st_uid)
        return random.SystemRandom().choice([uid for uid in range(30000, 60000) if uid not in taken])

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self, mounts, scratch, limits, command):
        words = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv",
                 "--uid", "65534", "--gid", "65534", "--hostname", "lab", "--setenv", "PATH", "/usr/bin",
                 "--setenv", "LC_ALL", "C", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
                 "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"]
        for outside, inside in mounts:
            words += ["--ro-bind", outside, inside]
        if scratch:
            words += ["--size", str(scratch), "--tmpfs", "/tmp"]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp" if scratch else "/"]
        return words + ["prlimit"] + [f"--{name}={value}" for name, value in limits.items()] + ["--"] + command

    def _start(self, command, **streams):
        as_nobody = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        if self.filter is None:
            return subprocess.Popen(command, start_new_session=True, cwd="/", **as_nobody, **streams)
        reader, writer = os.pipe()  # which holds far more than a filter
        os.write(writer, self.filter)
        os.close(writer)
        try:
            return subprocess.Popen([command[0], "--seccomp", str(reader), *command[1:]], start_new_session=True, cwd="/",
                                    pass_fds=(reader,), **as_nobody, **streams)
        finally:
            os.close(reader)

    @staticmethod
    def _limits(seconds, memory, processes, longest):
        return {"cpu": f"{seconds}:{seconds + 1}", "as": memory, "nproc": processes, "fsize": longest, "nofile": 64, "core": 0, "memlock": 0,
                "msgqueue": 0}

    def _try(self):
        """Makes sure that a sandbox can be made and that its limits hold."""
        if shutil.which("bwrap") is None:
            raise Unusable("bubblewrap is not installed (Debian package bubblewrap)")
        command = self._command([(self.library, "/libxkernel.a")], SCRATCH, self._limits(5, RUN_MEMORY, COMPILE_PROCESSES, MIB), ["/usr/bin/true"])
        with self._start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            said = process.communicate(timeout=60)[1]
        if process.returncode != 0:
            raise Unusable("bubblewrap cannot make a sandbox here: " + plain(said.decode(errors="replace")).strip())

    @contextlib.contextmanager
    def _folder(self, files):
        """A folder with these files ({name: contents}), as long as it is needed."""
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            os.chmod(folder, 0o755)
            for name, contents in files.items():
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(contents)
                os.chmod(os.path.join(folder, name), 0o644)
            yield folder

    def _gcc(self, files, what, arguments):
        """Runs the compiler, which finds files in /student. Returns (what it has written, its words)."""
        script = 'out=$1 && shift && gcc "$@" -o "$out" && cat "$out"'
        with self._folder(files) as source:
            command = self._command(
                [(self.tree, "/xk"), (self.library, "/libxkernel.a"), (self.programs, "/libxkernel-programs.a"), (source, "/student")],
                SCRATCH,
                self._limits(COMPILE_S, COMPILE_MEMORY, COMPILE_PROCESSES, PROGRAM_MAX),
                ["sh", "-c", script, "sh", "/tmp/out", *arguments])
            process = self._start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            output, words = Limited(process.stdout, PROGRAM_MAX), Limited(process.stderr, 16 * SAID_MAX)
            try:
                status = process.wait(timeout=2 * COMPILE_S)
            except subprocess.TimeoutExpired:
                kill(process)
                status = None
            written, said = output.end(), plain(words.end().decode(errors="replace"))
            process.stdout.close()
            process.stderr.close()
        if status is None:
            raise Refused(f"{what}: the compiler did not finish within {2 * COMPILE_S} seconds")
        if status != 0 or output.over:
            raise Refused(f"{what} does not compile:\n{quoted(said)}")
        return written, said

    def _program(self, contents):
        path = os.path.join(self.directory, secrets.token_hex(8))  # which the program can see
        with open(path, "wb") as out:
            out.write(contents)
        os.chmod(path, 0o755)
        return path

    def compile(self, name, files, over_ip=False):
        """Compiles a lab's host of a student's files ({name: contents}), or, without files, of a protocol of the library. Returns (program,
        the compiler's words)."""
        contents, said = self._gcc(files, f"{name}.c", [*FLAGS, f"-DLABHOST_LAB={name}", *(["-DLABHOST_OVER_IP"] if over_ip else []), "-I/xk",
                                                        "/xk/labhost.c", *(f"/student/{one}" for one in files if one == f"{name}.c"),
                                                        "/libxkernel-programs.a", "/libxkernel.a"])
        return self._program(contents), said

    def compile_object(self, name, files, options=()):
        """Compiles one of files alone. Returns its object."""
        return self._gcc(files, name, [*FLAGS, *options, "-I/xk", "-c", f"/student/{name}"])[0]

    def link(self, what, objects):
        """Links objects to a program of tests (tests/rig.h). Returns the program."""
        files = {f"{number}.o": contents for number, contents in enumerate(objects)}
        contents, _ = self._gcc(files, what, ["-s", "-Wl,--build-id=none", "-pthread", *(f"/student/{name}" for name in files), "/libxkernel.a", "-lcunit"])
        return self._program(contents + bytes(-len(contents) % MIB))  # nearly all are of one size

    def run(self, program, seconds=TESTS_WAITING_S):
        """Runs a program of tests for at most `seconds`. Returns (its exit status, None if it was not done in time; its first output)."""
        command = self._command([(program, "/test")], 0, self._limits(TEST_S, RUN_MEMORY, RUN_PROCESSES, 0), ["/test"])
        process = self._start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        printed = Limited(process.stdout, 16 * SAID_MAX)
        try:
            status = process.wait(timeout=min(4 * TEST_S, seconds))
        except subprocess.TimeoutExpired:
            kill(process)
            status = None
        output = printed.end().decode(errors="replace")
        process.stdout.close()
        return status, output

    def start(self, program, budget, chance, boots, *words):
        """words: "trace", "journey"."""
        return Process(self, program, budget, chance, boots, words)

    def start_tcp(self, chance, *words):
        """Starts a host of the grader's own, which runs this project's TCP (labhost.c): a peer, or another sender."""
        if self.tcp is None:
            self.tcp, _ = self.compile("tcp", {}, over_ip=True)
        return Process(self, self.tcp, Budget().run(), chance, 1, words)


def kill(process):
    """Ends a sandbox with all its processes: the kernel ends a process namespace with its first process."""
    if process.poll() is None:  # otherwise its number may be another's by now
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Process:
    """The student's host: one boot of it."""

    def __init__(self, sandbox, program, budget, chance, boots, words=()):
        self.socket, theirs = socket.socketpair()
        command = sandbox._command([(program, "/host")], 0,
                                   sandbox._limits(RUN_S, RUN_MEMORY, RUN_PROCESSES, 0), ["/host", str(chance), str(boots), *words])
        self.process = sandbox._start(command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        theirs.close()
        self.said = Limited(self.process.stderr, SAID_MAX)
        self.kinds = {b"f", b"d", b"r", b"e", b"t", *(TOLD[word] for word in words if word in TOLD)}
        self.budget, self.buffer, self.deadline = budget, bytearray(), 0
        self.journey = bytearray()  # lines, the last of which may be cut

    def step(self, now, items):
        """Lets the host do what items (a list of (kind, bytes)) and its timers ask for at this time.

        Returns ([(kind, bytes)], the time of its next timer), all of which may be lies."""
        self.budget.spend(STEPS, 1)
        began = time.monotonic()
        self.deadline = began + min(SILENCE_S, self.budget.left(WAITING))
        try:
            self._hurry()
            self.socket.sendall(b"".join(
                struct.pack(">cI", kind, len(data)) + data
                for kind, data in [(b"T", struct.pack(">Q", now)), *items, (b"G", b"")]))
            return self._answer()
        except socket.timeout:
            raise Ended(f"did not answer in time, at {now / 1e9:.6f} s of virtual time") from None
        except OSError:
            raise Ended(self._why()) from None
        finally:
            self.budget.spend(WAITING, time.monotonic() - began)

    def _hurry(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout
        self.socket.settimeout(left)

    def _read(self, count):
        while len(self.buffer) < count:
            self._hurry()
            more = self.socket.recv(65536)
            if not more:
                raise Ended(self._why())
            self.buffer += more
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def _answer(self):
        records = []
        while True:
            kind, length = struct.unpack(">cI", self._read(5))
            if kind not in self.kinds or length > RECORD_MAX or (kind == b"t" and length != 8):
                raise Ended("sent a record that labhost.c does not send")
            kept = True
            if kind in TOLD.values():
                kept = self.budget.has_room(kind, length + RECORD_COST)
            else:
                self.budget.spend(ANSWERS, (length + RECORD_COST) / MIB)
            data = self._read(length)
            if kind == b"t":
                return records, struct.unpack(">Q", data)[0]
            if kind == b"j" and kept:
                self.journey += data
            elif kept and kind != b"j":
                records.append((kind, data))

    def _why(self):
        try:
            status = self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return "closed the connection to the grader"
        said = plain(self.said.end().decode(errors="replace")).strip()
        # bubblewrap passes on a signal as 128 + its number
        how = f"signal {status - 128} ({signal.strsignal(status - 128)})" if 128 < status < 160 else f"status {status}"
        return f"ended with {how}" + (f"; its output:\n{quoted(said)}" if said else "")

    def close(self):
        kill(self.process)
        self.socket.close()
        self.said.end()
        self.process.stderr.close()


class Ahead:
    """Starts the hosts of the runs of a search. The first one of a run is started earlier, since making a sandbox takes longer than
    a run; a later one is not, lest it watch the one that has to be forgotten. start(budget, chance, boots) starts a host."""

    def __init__(self, start, budget):
        self.start, self.budget = start, budget
        self.first = None  # chance of each first host
        self.ready = []

    def run(self):
        """Returns a function with which the World of the next run starts its hosts."""
        budget = self.budget.run()
        return lambda chance, boots: self._first(chance, budget) if boots == 1 else self.start(budget, chance, boots)

    def _first(self, chance, budget):
        if chance != self.first:
            self.close()
            self.first = chance
        while len(self.ready) <= AHEAD:
            self.ready.append(self.start(budget, chance, 1))
        host = self.ready.pop(0)
        host.budget = budget
        return host

    def close(self):
        while self.ready:
            self.ready.pop().close()
