#!/usr/bin/env python3
"""stopped.py PROGRAM ARGUMENT... - runs a program as a debugger does, until it stops itself by SIGTRAP, and then to its end.

Prints what the program has written on standard output when it stops, then a line "stopped", then the rest. Exits with the
program's status, or 100 if it did not stop.
"""
import ctypes
import os
import signal
import sys
import tempfile

PTRACE_TRACEME, PTRACE_CONT = 0, 7

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
with tempfile.TemporaryFile() as out:
    pid = os.fork()
    if pid == 0:
        os.dup2(out.fileno(), 1)
        libc.ptrace(PTRACE_TRACEME, 0, None, None)
        os.execv(sys.argv[1], sys.argv[1:])
    os.waitpid(pid, 0)  # the program begins
    stopped, forwarded = False, 0
    while True:
        libc.ptrace(PTRACE_CONT, pid, None, forwarded)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            break
        forwarded = os.WSTOPSIG(status)
        if forwarded == signal.SIGTRAP and not stopped:
            stopped, forwarded = True, 0
            sys.stdout.write(os.pread(out.fileno(), os.fstat(out.fileno()).st_size, 0).decode() + "stopped\n")
            at = os.fstat(out.fileno()).st_size
    if not stopped:
        sys.exit(100)
    sys.stdout.write(os.pread(out.fileno(), os.fstat(out.fileno()).st_size, at).decode())
    sys.exit(os.waitstatus_to_exitcode(status))
