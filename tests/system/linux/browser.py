#!/usr/bin/env python3
"""browser.py ADDRESS WHAT - what browsers and worse do to a host that serves HTTP. Exit status 0: it answered as it should.

    pipelined    ten requests at once, some whose bytes come one by one, over one connection
    malformed    requests that are malformed in their own ways, all at once, beside a browser whose requests are served
    unread       browsers that read nothing, beside one whose requests are served
    hungry       very many of these, more than there are buffers for
    idle PID     a thousand connections on which nothing happens, and the processor time of the process meanwhile
    metrics      whether /metrics follows the rules of Prometheus' text format
"""
import json
import os
import re
import resource
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from metrics import check_metrics  # noqa: E402

PATIENCE_S = 100
IDLE = 1000
HUNGRY = 500
HOST = b"Host: HOST\r\n"

# What is sent, the status, and the counter. Those with None are never whole: `slow_request` counts them.
MALFORMED = [
    (b"GET /" + b"a" * 20000, 414, "long_line"),
    (b"GET / HTTP/1.1\r\nA: " + b"b" * 20000, 431, "long_head"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 101 + b"\r\n", 431, "many_fields"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: -5\r\n\r\n", 400, "bad_content_length"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 413, "body"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 413, "body"),
    (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", 400, "bad_path"),
    (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", 400, "bad_path"),
    (b"GET / HTTP/1.1\nHost: HOST\n\n", 400, "bad_line_end"),
    (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "foreign_host"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_host"),
    (b"GET / HTTP/1.1\r\n" + HOST + b" folded\r\n\r\n", 400, "bad_field"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_line"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "bad_version"),
    (b"DELETE / HTTP/1.1\r\n" + HOST + b"\r\n", 405, "bad_method"),
    (b"GET / HTTP/1.1\r\nHost: H", None, "slow_request"),
    (b"G", None, "slow_request"),
]


class Browser:
    """A connection, which reads whole responses."""

    def __init__(self, address, room=None):
        self.address = address
        self.stream = socket.socket()
        if room is not None:
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.stream.settimeout(PATIENCE_S)
        self.stream.connect((address, 80))
        self.rest = b""

    def send(self, request):
        self.stream.sendall(request.replace(b"HOST", self.address.encode()))

    def receive(self):
        """Returns the next response's status and body."""
        while b"\r\n\r\n" not in self.rest:
            self.more()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"\r\nContent-Length: (\d+)", head).group(1))
        while len(self.rest) < length:
            self.more()
        body, self.rest = self.rest[:length], self.rest[length:]
        return int(head.split()[1]), body

    def more(self):
        piece = self.stream.recv(1 << 16)
        if not piece:
            raise EOFError("the connection ended within a response")
        self.rest += piece

    def ask(self, path=b"/stats.json"):
        self.send(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        return self.receive()

    def count(self, name):
        for protocol in json.loads(self.ask()[1])["protocols"]:
            if protocol["protocol"] == "http":
                return protocol["counters"][name]
        raise KeyError(name)

    def has_ended(self):
        try:
            return self.stream.recv(1 << 16) == b""
        except ConnectionResetError:
            return True


def require(condition, *words):
    if not condition:
        sys.exit("browser.py: " + " ".join(map(str, words)))


def pipelined(address):
    browser = Browser(address)
    browser.send((b"GET /stats.json HTTP/1.1\r\n" + HOST + b"\r\n") * 5 + (b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\nGET /absent HTTP/1.1\r\n" + HOST + b"\r\n"))
    for _ in range(5):
        status, body = browser.receive()
        require(status == 200 and "protocols" in json.loads(body), status, body)
    while b"\r\n\r\n" not in browser.rest:
        browser.more()
    head, browser.rest = browser.rest.split(b"\r\n\r\n", 1)  # a response to HEAD has no body
    require(head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/html"), head)
    require(browser.receive()[0] == 404, "no 404")
    for byte in b"GET /stats.json HTTP/1.1\r\n" + HOST.replace(b"HOST", address.encode()) + b"\r\n":
        browser.send(bytes([byte]))
    require(browser.receive()[0] == 200, "byte by byte")


def malformed(address):
    good = Browser(address)
    before = {name: good.count(name) for _, _, name in MALFORMED}
    browsers = []
    for request, status, name in MALFORMED:
        browsers.append((Browser(address), status, name))
        browsers[-1][0].send(request)
        require(good.ask()[0] == 200, "a good browser is not served beside", name)
    for browser, status, name in browsers:
        if status is not None:
            got, body = browser.receive()
            require(got == status and body.endswith(f": {name}\n".encode()), name, got, body)
            browser.stream.shutdown(socket.SHUT_WR)
            require(browser.has_ended(), name, "its connection stays")
    for browser, status, name in browsers:
        if status is None:
            got, body = browser.receive()
            require(got == 408 and body.endswith(b": slow_request\n"), got, body)
    for name in before:
        wanted = sum(1 for _, _, other in MALFORMED if other == name)
        require(good.count(name) == before[name] + wanted, name, good.count(name), before[name])


def unread(address):
    good = Browser(address)
    before = good.count("stalled")
    bad = [Browser(address, 2048) for _ in range(4)]
    bad[0].send((b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n") * 5)
    bad[1].send(b"GET /stats.json HTTP/1.1\r\n" + HOST + b"\r\n")  # TCP has all of it
    bad[2].send(b"GET /stats.json HTTP/1.1\r\n" + HOST + b"\r\n")
    bad[2].stream.shutdown(socket.SHUT_WR)
    bad[3].send(b"GET /stats.json HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    until = time.monotonic() + PATIENCE_S
    while good.count("stalled") < before + len(bad):
        require(time.monotonic() < until, "it is not noticed that nothing is read:", good.count("stalled") - before)
        time.sleep(0.05)
    status, body = good.ask(b"/large")
    require(status == 200 and body == b"0123456789" * 200000, status, len(body))


def hungry(address):
    good, before = Browser(address), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(before[1], HUNGRY + 100)), before[1]))
    bad = []
    for _ in range(HUNGRY):
        bad.append(Browser(address, 2048))
        bad[-1].send(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        require(good.ask()[0] == 200, "a good browser is not served beside", len(bad))
    require(good.count("stalled") > 0, "buffers for everybody: nothing was shown")


def used_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
        words = stream.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def idle(address, pid):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, IDLE + 100)), hard))
    browsers = []
    for i in range(IDLE):
        browsers.append(Browser(address))
        if i % 10 == 0:
            require(browsers[-1].ask(b"/absent")[0] == 404, "connection", i)
    time.sleep(1)
    before = used_s(pid)
    time.sleep(4)
    used = used_s(pid) - before
    for browser in browsers[::100]:
        require(browser.ask(b"/absent")[0] == 404, "a connection that was idle")
    print(f"{used:.2f} s of processor time in 4 s with {IDLE} idle connections")
    require(used < 0.4, used, "s of processor time in 4 s")  # the drivers' and the edges' own timers


def metrics(address):
    status, body = Browser(address).ask(b"/metrics")
    require(status == 200, status)
    check_metrics(body.decode("ascii"))
    require('xk_drops_total{protocol="udp",type="udp",reason="no_session"} ' in body.decode(), "no drops with reasons")


def main(address, what, *more):
    {"pipelined": pipelined, "malformed": malformed, "unread": unread, "hungry": hungry, "idle": idle, "metrics": metrics}[what](address, *more)


main(*sys.argv[1:])
