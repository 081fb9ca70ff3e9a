#!/usr/bin/env python3
"""walk PERDURE RECORDER [--json FILE] [--names SCENARIO] [--write PAGE] [--check PAGE]: how far a request walks through the house.

PERDURE is a binary built with -finstrument-functions (make walk does that), RECORDER the library that writes down what it does. Seven
scenarios are run; each is repeated, and of every number the smallest counts: what the background threads do meanwhile is not the request's.

What is counted, for one request:
  functions    distinct functions of perdure that are entered, and the files and rooms they are in
  crossings    calls from one room into another; borders: calls between core, product and server (GROUPS)
  locks        mutexes and rwlocks that perdure takes; allocations and bytes copied likewise. What libraries do inside is not counted.
  system calls of all threads of the process (strace), libraries included
  trips        HTTP requests, for a command that talks to a server
"""
import argparse
import bisect
import collections
import http.client
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ENTER, LEAVE, LOCK, ALLOCATION, COPY = range(1, 6)
EVENT = struct.Struct("<QQII")
HEAD = struct.Struct("<QQQ")
EVENTS_MAX = 1 << 20
REPEATS = 9
WARM_UP = 30
CORE = {"base", "json", "dag", "backend", "engine"}
SERVER = {"wire", "server", "remote", "client", "cmd"}
NUMBERS = ["functions", "files", "rooms", "crossings", "borders", "locks", "allocations", "copied", "system_calls"]


def group_of(room):
    return "core" if room in CORE else "server" if room in SERVER else "product"


class Symbols:
    """Addresses of a binary as functions, files and rooms."""

    def __init__(self, binary):
        self.binary, self.places = binary, {}
        out = subprocess.run(["nm", "-n", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in out.splitlines()]
        self.starts = [int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "tT"]
        ends = [int(row[0], 16) for row in rows if len(row) == 3 and row[2] in ("_etext", "etext")]
        self.end = max(ends + self.starts)

    def holds(self, address):
        return self.starts[0] <= address < self.end

    def learn(self, addresses):
        new = sorted(a for a in addresses if a not in self.places)
        if not new:
            return
        out = subprocess.run(["addr2line", "-f", "-e", self.binary], input="\n".join(map(hex, new)), capture_output=True, text=True,
                             check=True).stdout.splitlines()
        for address, name, where in zip(new, out[::2], out[1::2]):
            found = re.search(r"(?:^|/)(src|cmd)/([^/]+)/([^:]+):", where)
            room = "cmd" if found and found.group(1) == "cmd" else found.group(2) if found else "generated"
            self.places[address] = (name, room, found.group(3) if found else "")


class Recording:
    """The file that the recorder writes into."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(HEAD.size + EVENTS_MAX * EVENT.size)
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 0)

    def start(self):
        self.map[8:16] = struct.pack("<Q", 0)
        self.map[0:8] = struct.pack("<Q", 1)

    def stop(self):
        self.map[0:8] = struct.pack("<Q", 0)
        _, count, base = HEAD.unpack(self.map[:HEAD.size])
        if count > EVENTS_MAX:
            raise SystemExit(f"walk: {count} events; the recorder keeps {EVENTS_MAX}")
        events = []
        for i in range(count):
            address, size, thread, kind = EVENT.unpack_from(self.map, HEAD.size + i * EVENT.size)
            if kind:  # else its thread was between taking the place and filling it
                events.append((address - base, size, thread, kind))
        self.map[HEAD.size:HEAD.size + count * EVENT.size] = bytes(count * EVENT.size)
        return events


def measure(events, symbols):
    """The numbers of one walk, and its functions in the order of their first call."""
    symbols.learn({e[0] for e in events if e[3] in (ENTER, LEAVE) and symbols.holds(e[0])})
    seen, stacks, arrows = {}, collections.defaultdict(list), collections.Counter()
    numbers = collections.Counter()
    for address, size, thread, kind in events:
        if not symbols.holds(address):
            continue
        stack = stacks[thread]
        if kind == ENTER:
            place = symbols.places[address]
            seen.setdefault(place)
            if stack and stack[-1] != place[1]:
                arrows[stack[-1], place[1]] += 1
            stack.append(place[1])
        elif kind == LEAVE and stack:
            stack.pop()
        elif kind == LOCK:
            numbers["locks"] += 1
        elif kind == ALLOCATION:
            numbers["allocations"] += 1
        elif kind == COPY:
            numbers["copied"] += size
    numbers["functions"] = len(seen)
    numbers["files"] = len({place[1:] for place in seen})
    numbers["rooms"] = len({place[1] for place in seen})
    numbers["crossings"] = sum(arrows.values())
    numbers["borders"] = sum(n for (a, b), n in arrows.items() if group_of(a) != group_of(b))
    return numbers, list(seen), arrows


class Server:
    """A server that is recorded, with a token for one agent and one for the operator."""

    def __init__(self, perdure, recorder, folder, log_level="info"):
        self.perdure, self.home = perdure, os.path.join(folder, "home")
        self.recording = Recording(os.path.join(folder, "server.walk"))
        run = lambda *words: subprocess.run([perdure, "--store", self.home, *words], capture_output=True, text=True, check=True).stdout
        self.cli = run
        run("put", "first", "1")
        run("token", "create", "--agent", "walker")
        self.token = self.make_token("--agent", "walker")
        self.operator = self.make_token("--role", "operator")
        environment = dict(os.environ, LD_PRELOAD=recorder, PERDURE_WALK=self.recording.path)
        self.log = open(os.path.join(folder, "server.log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([perdure, "serve", "--home", self.home, "--listen", "127.0.0.1:0", "--log", "json", "--log-level",
                                         log_level], env=environment, stdout=self.log, stderr=self.log)
        self.port = self.wait_for_port()
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def make_token(self, *words):
        text = self.cli("--json", "token", "create", *words)
        return json.loads(text)["token"]

    def text(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def wait_for_port(self):
        for _ in range(600):
            found = re.search(r"127\.0\.0\.1:(\d+)", self.text())
            if found and found.group(1) != "0":
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit("walk: the server did not start:\n" + self.text())

    def post(self, path, body, headers=None):
        head = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json", **(headers or {})}
        self.connection.request("POST", path, json.dumps(body), head)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"walk: {path}: {answer.status} {text.decode()}")
        return text, answer

    def call(self, name, body):
        return self.post("/v1/call/" + name, body)

    def settle(self):
        """Until no thread of the server did anything for a moment."""
        quiet = 0
        while quiet < 3:
            self.recording.start()
            time.sleep(0.03)
            quiet = quiet + 1 if not self.recording.stop() else 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()


class Watch:
    """A client of GET /v1/watch."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request("GET", "/v1/watch?store=walker", headers={"Authorization": "Bearer " + server.token})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise SystemExit("walk: watch: " + self.answer.read().decode())

    def wait_for(self, word):
        while True:
            line = self.answer.fp.readline().decode()
            if not line:
                raise SystemExit("walk: the watch ended")
            if word in line:
                return


def scenarios(server):
    """name -> a function that makes the i-th request of that kind."""
    server.call("threads.create", {"thread_id": "walk"})
    plan = {"step": 1, "text": "x" * 200}
    session = {}

    def mcp(i):
        head = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18", **session}
        body = {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "state_persistent_set",
                                                                                 "arguments": {"key": "plan", "value": plan}}}
        server.post("/mcp", body, head)

    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                               "clientInfo": {"name": "walk", "version": "1"}}}
    _, answer = server.post("/mcp", opening, {"Accept": "application/json, text/event-stream"})
    if answer.getheader("Mcp-Session-Id"):
        session["Mcp-Session-Id"] = answer.getheader("Mcp-Session-Id")
    versions = {"thread": 0}

    def append(i):
        body = {"thread_id": "walk", "run_id": "r", "reason": "UserMessage", "messages": [{"role": "user", "content": "hello", "id": f"m{i}-{time.time_ns()}"}],
                "patches": [{"op": "set", "path": "/step", "value": i}], "expected_version": versions["thread"]}
        text, _ = server.call("threads.append", body)
        versions["thread"] = json.loads(text)["version"]

    return {
        "HTTP set": lambda i: server.call("state.persistent.set", {"key": "plan", "value": plan}),
        "HTTP get": lambda i: server.call("state.persistent.get", {"key": "plan"}),
        "HTTP threads.append": append,
        "MCP tool call": mcp,
    }


def smallest(rows):
    return {name: min(row[name] for row in rows) for name in NUMBERS if all(name in row for row in rows)}


def record_server(server, symbols, act):
    """`act` REPEATS times, each recorded alone; the numbers, and the functions and arrows of the shortest."""
    for i in range(WARM_UP):
        act(i)
    rows = []
    for i in range(REPEATS):
        server.settle()
        act(WARM_UP + 2 * i)  # a request among others: what one of them looked up is there for the next
        time.sleep(0.02)
        server.recording.start()
        act(WARM_UP + 2 * i + 1)
        time.sleep(0.02)  # what the server does after its answer belongs to the request
        rows.append(measure(server.recording.stop(), symbols))
    shortest = min(rows, key=lambda row: row[0]["functions"])
    return smallest([row[0] for row in rows]), shortest[1], shortest[2]


def trace_server(server, act):
    """System calls of the whole process for one request."""
    log = server.log.name + ".strace"
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-ttt", "-o", log, "-p", str(server.process.pid)], stderr=subprocess.DEVNULL)
    counts = []
    time.sleep(0.5)
    for i in range(REPEATS):
        begun = time.time()
        act(1000 + i)
        ended = time.time()
        time.sleep(0.05)
        counts.append((begun, ended + 0.02))
    tracer.send_signal(signal.SIGINT)
    tracer.wait(30)
    with open(log, encoding="utf-8", errors="replace") as lines:
        times = sorted(float(line.split()[1]) for line in lines if "resumed>" not in line and re.match(r"\d+ +\d+\.\d+ \w+\(", line))
    return min(bisect.bisect(times, b) - bisect.bisect(times, a) for a, b in counts)


def command(perdure, recorder, symbols, folder, words):
    """A command, recorded from start to end; its system calls by a second run."""
    recording = Recording(os.path.join(folder, "command.walk"))
    environment = dict(os.environ, LD_PRELOAD=recorder, PERDURE_WALK=recording.path)
    rows = []
    for i in range(REPEATS):
        recording.start()
        subprocess.run([perdure, *words, str(i)], env=environment, check=True, stdout=subprocess.DEVNULL)
        rows.append(measure(recording.stop(), symbols))
    shortest = min(rows, key=lambda row: row[0]["functions"])
    numbers = smallest([row[0] for row in rows])
    counts = []
    for i in range(3):
        log = os.path.join(folder, "command.strace")
        subprocess.run(["strace", "-f", "-qq", "-o", log, perdure, *words, str(100 + i)], check=True, stdout=subprocess.DEVNULL)
        with open(log, encoding="utf-8", errors="replace") as lines:
            counts.append(sum(1 for line in lines if "resumed>" not in line and "(" in line))
    numbers["system_calls"] = min(counts)
    return numbers, shortest[1], shortest[2]


def remote_put(server):
    """The words of a put through the server; its token is in the environment."""
    os.environ["PERDURE_TOKEN"] = server.operator
    os.environ["PERDURE_REMOTE_TOKEN"] = server.operator
    return ["--server", f"http://127.0.0.1:{server.port}", "--agent", "walker", "put", "plan"]


def count_trips(perdure, recorder, folder):
    """Of a server of its own: it logs each request, which the others do not."""
    server = Server(perdure, recorder, folder, "debug")
    try:
        words = remote_put(server)
        subprocess.run([perdure, *words, "1"], check=True, stdout=subprocess.DEVNULL)  # the first one makes the store
        time.sleep(0.3)  # it is logged after its answer
        before = server.text().count('"method"')
        subprocess.run([perdure, *words, "2"], check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        return server.text().count('"method"') - before
    finally:
        server.stop()


def walk(perdure, recorder, folder):
    symbols, found = Symbols(perdure), {}
    server = Server(perdure, recorder, folder)
    try:
        for name, act in scenarios(server).items():
            found[name] = record_server(server, symbols, act)
            found[name][0]["system_calls"] = trace_server(server, act)
        watch = Watch(server)
        state = {"n": 0}

        def event(_):
            state["n"] += 1
            subprocess.run([perdure, "--store", server.home, "--agent", "walker", "put", f"event-{state['n']}", "1"], check=True,
                           stdout=subprocess.DEVNULL)
            watch.wait_for(f"event-{state['n']}")

        found["watch event"] = record_server(server, symbols, event)
        found["watch event"][0]["system_calls"] = trace_server(server, event)
        found["CLI put"] = command(perdure, recorder, symbols, folder, ["--store", os.path.join(folder, "own"), "put", "plan"])
        found["--server put"] = command(perdure, recorder, symbols, folder, remote_put(server))
    finally:
        server.stop()
    logged = os.path.join(folder, "logged")
    os.mkdir(logged)
    found["--server put"][0]["trips"] = count_trips(perdure, recorder, logged)
    return found


# ---- the page: docs/walks.md has the numbers of now between two marks ----

BEGIN, END = "<!-- walks: made by make walk -->", "<!-- walks: end -->"
COLUMNS = [*NUMBERS, "trips"]
KEPT = ["functions", "crossings", "borders", "locks", "allocations", "trips"]  # what may not grow
GROWTH, SLACK = 1.10, 1  # by more than this; one more of a few is not a tenth


def table_of(found):
    lines = ["| walk | " + " | ".join(name.replace("_", " ").replace("copied", "bytes copied") for name in COLUMNS) + " |",
             "|---|" + "--:|" * len(COLUMNS)]
    for name, (numbers, _, _) in found.items():
        lines.append(f"| {name} | " + " | ".join(str(numbers.get(column, "")) for column in COLUMNS) + " |")
    return "\n".join(lines)


def write_page(path, found):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN, 1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + table_of(found) + "\n" + END + rest.split(END, 1)[1])


def read_page(path):
    """walk -> column -> number, as it is written there."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split("|")[1:-1] for line in file.read().split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()]
    return {row[0].strip(): {column: int(cell) for column, cell in zip(COLUMNS, row[1:]) if cell.strip()} for row in rows[2:]}


def grown(known, found):
    """What is more than a tenth longer than the page says, or not there at all, as text."""
    faults = [f"{name}: is not on the page" for name in found if name not in known]
    for name, numbers in known.items():
        if name not in found:
            faults.append(f"{name}: was not walked")
            continue
        for column in KEPT:
            was, now = numbers.get(column, 0), found[name][0].get(column, 0)
            if now > max(was * GROWTH, was + SLACK):
                faults.append(f"{name}: {now} {column}, {was} on the page")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perdure")
    parser.add_argument("recorder")
    parser.add_argument("--json", help="write the numbers there")
    parser.add_argument("--names", help="print the functions of this scenario, in order")
    parser.add_argument("--write", metavar="PAGE", help="put the numbers into this page")
    parser.add_argument("--check", metavar="PAGE", help="fail if a walk is more than a tenth longer than this page says")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="perdure-walk-")
    try:
        found = walk(os.path.abspath(options.perdure), os.path.abspath(options.recorder), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, (numbers, functions, arrows) in found.items():
        print(f"{name:20} " + " ".join(f"{key}={value}" for key, value in numbers.items()))
        if options.names == name:
            for function, room, file in functions:
                print(f"  {room}/{file}: {function}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({name: {"numbers": numbers, "arrows": {f"{a} > {b}": n for (a, b), n in sorted(arrows.items())}}
                       for name, (numbers, _, arrows) in found.items()}, file, indent=1)
            file.write("\n")
    if options.write:
        write_page(options.write, found)
    faults = grown(read_page(options.check), found) if options.check else []
    for fault in faults:
        print("walk: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
