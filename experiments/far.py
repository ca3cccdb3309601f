"""far.py - the other machine of experiments between two machines (class Far): commands run there by the user's own ssh."""
import os
import shlex
import shutil
import signal
import subprocess

from programs import ROOT, Failed

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15")
HELLO = "the-output-of-a-command"  # begins the first answer: anything before it comes from the shell
BOOT = "/proc/sys/kernel/random/boot_id"  # containers and namespaces of one machine share it
# Runs a command until it, or standard input, ends: ssh forwards no signals, but its input ends with its caller or itself.
UNTIL_INPUT_ENDS = ("exec 3<&0; {} </dev/null 3<&- & pid=$!; "
                    "{{ cat <&3; kill $pid; sleep 10; kill -KILL $pid; }} >/dev/null 2>&1 & wait $pid; status=$?; kill $!; exit $status")


def is_card(link):
    """Returns whether link is a PCI address, which needs no interface."""
    return ":" in link


def both(text):
    """Returns HERE[,THERE] as a pair."""
    here, _, there = text.partition(",")
    return here, there or here


class Program(subprocess.Popen):
    """A command on the other machine. Any signal sent to it becomes SIGTERM there; its output still arrives."""

    def __init__(self, command, **more):
        there, self.input = os.pipe()
        try:
            super().__init__(command, stdin=there, **more)
        except BaseException:
            self.end_input()
            raise
        finally:
            os.close(there)

    def end_input(self):
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def send_signal(self, sig):
        self.end_input()
        if sig == signal.SIGKILL:
            super().send_signal(sig)


class Far:
    """The other machine, which runs an experiment's server, and the link to it. options: those of add_options, build and cores."""

    def __init__(self, options):
        self.host = options.far
        if shutil.which(SSH[0]) is None:
            raise Failed("--far needs ssh (package openssh-client)")
        if not self.host or self.host.startswith("-"):
            raise Failed(f"--far {self.host or repr('')}: give USER@HOST, as to ssh")
        if not options.link:
            raise Failed("--far needs --link: the link between the machines")
        self.links = both(options.link)  # of the client and of the server
        if not is_card(options.link) and not options.dev:
            raise Failed(f"--link {options.link} needs --dev: an interface of each machine: HERE,THERE")
        self.devs = both(options.dev or options.link)
        self.cores = options.cores.split(",")[0], options.cores.split(",")[-1]
        self.are_two = self.check_other_side(os.path.join(os.path.abspath(options.build), "xk"))
        self.ends = "two machines" if self.are_two else "two systems on one machine"

    def check_other_side(self, program):
        """Returns whether the other system is on another machine. Fails if experiments could not run there."""
        line = (f"echo {HELLO}; test -x {shlex.quote(program)} && echo built || echo; cat {BOOT} || echo; "
                f"git -C {shlex.quote(ROOT)} rev-parse HEAD || echo")
        banner, _, said = self.output(line).partition(HELLO + "\n")
        if banner:
            raise Failed(f"--far {self.host}: the shell there prints {banner.splitlines()[0]!r} before a command's output: "
                         "let its start file (~/.bashrc?) print only if the shell is interactive")
        built, boot, commit = said.split("\n")[:3]
        here = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.split("\n")
        again = "put this commit into the same directory there, and run ./run build"
        if not built:
            raise Failed(f"--far {self.host}: {program} is missing there: {again}")
        if commit and here[3] and commit != here[3]:
            raise Failed(f"--far {self.host}: {ROOT} is at commit {commit[:10]} there, at {here[3][:10]} here: {again}")
        return bool(boot) and boot != here[2]

    def options(self):
        """Returns the options with which another program creates an equal Far."""
        return ["--far", self.host, "--link", ",".join(self.links), "--dev", ",".join(self.devs)]

    def of_pair(self):
        """Returns options for udptest and chantest, which start their server there."""
        return ["--far", shlex.join([*SSH, self.host]), "--link", self.links[0], "--set", f"client:port.dev={self.devs[0]}", "--set",
                f"server:port.dev={self.devs[1]}"]

    def of_end(self, end):
        """Returns the options of one host: 0, the client here, or 1, the server there."""
        return ["--link", self.links[end], "--set", f"port.dev={self.devs[end]}"]

    def line(self, line):
        """Returns the command that runs a line there, independent of the user's shell."""
        return [*SSH, self.host, "exec sh -c " + shlex.quote(line)]

    def words(self, *words):
        """Returns the command that runs another one there, which must end without a signal."""
        return self.line("exec " + shlex.join(map(str, words)))

    def start(self, words, **more):
        """Starts a command there that runs until it gets a signal or this program ends. more: passed to Popen."""
        return Program(self.line(UNTIL_INPUT_ENDS.format(shlex.join(map(str, words)))), **more)

    def output(self, line, given=b""):
        """Returns what a line prints there, with `given` as its input."""
        done = subprocess.run(self.line(line), input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").split("\n")
            why = next((words.strip() for words in reversed(said) if words.strip()), f"`{line}` ended with status {done.returncode}")
            hint = f" (`ssh {self.host} true` must work without a password)" if done.returncode == 255 else ""
            raise Failed(f"--far {self.host}: {why}{hint}")
        return done.stdout.decode()

    def put(self, data):
        """Returns the name of a new file there with this data. The caller must remove() it."""
        return self.output('f=$(mktemp) || exit; cat >"$f" && echo "$f" || { rm "$f"; exit 1; }', data).strip()

    def remove(self, *files):
        self.output("rm -rf " + shlex.join(files))


def add_options(parser):
    """Adds the options of programs whose server may run on another machine."""
    parser.add_argument("--far", metavar="USER@HOST", help="run the servers there, by ssh, which must work without a password")
    parser.add_argument("--link", metavar="HERE[,THERE]", help="with --far: the link between the machines: af_packet, af_xdp, or the PCI addresses of their cards")
    parser.add_argument("--dev", metavar="HERE[,THERE]", help="with --far: each machine's interface, unless the link is a card")


def far_of(options):
    return Far(options) if options.far else None
