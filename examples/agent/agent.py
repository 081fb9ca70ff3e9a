#!/usr/bin/env python3
"""agent.py TASKS OUT: agent.c in Python, over the command line (`perdure agent …`). Start it with `perdure run`, or set PERDURE_AGENT and
PERDURE_STORAGE (or PERDURE_STORE). It may be killed at any moment."""
import json
import os
import subprocess
import sys

BATCH = 5
NOTHING = 1  # the exit code of `next` if there is nothing to do


def perdure(*words):
    """One call; its answer, or None if there is nothing."""
    call = subprocess.run(["perdure", "--json", "agent", *words], stdout=subprocess.PIPE, check=False)
    if call.returncode == NOTHING:
        return None
    if call.returncode:
        sys.exit(call.returncode)  # it was told on standard error. 3: another process has taken the agent over
    return json.loads(call.stdout)


class Outside:
    """The outside world: lines `ID <tab> TEXT` in a file."""

    def __init__(self, path):
        self.path = path

    def has(self, id_):
        """Is there a whole line of this id? One that a crash left unfinished is cut off: it has not happened."""
        try:
            with open(self.path, "r+b") as file:
                data = file.read()
                end = data.rfind(b"\n") + 1
                file.truncate(end)
        except FileNotFoundError:
            return False
        return any(line.split(b"\t")[0].decode() == id_ for line in data[:end].splitlines())

    def append(self, id_, text):
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{id_}\t{text}\n".encode())
        os.fsync(fd)
        os.close(fd)


def do_effect(effects, id_, task):
    """Do it once, whatever became of those who tried before."""
    state = perdure("effect", "intend", id_, "--event", id_)["state"]
    if state == "done":
        return
    if state == "intended" or not effects.has(id_):  # unknown: look
        effects.append(id_, task)
    perdure("effect", "done", id_, "true")


def take_tasks(tasks, count):
    """Put the next tasks into the queue; False if there are none. The queue is empty: what was taken before is finished."""
    events = [json.dumps({"id": f"task-{count + i + 1}", "source": "list", "type": "task", "task": task})
              for i, task in enumerate(tasks[count:count + BATCH])]
    if events:
        perdure("push", *events)
    return bool(events)


def main():
    tasks = open(sys.argv[1], encoding="utf-8").read().splitlines()
    effects, replies = Outside(f"{sys.argv[2]}/effects"), Outside(f"{sys.argv[2]}/replies")
    life = perdure("open")
    os.environ["PERDURE_EPOCH"] = str(life["epoch"])
    count = life["tick_index"]
    while True:
        step = perdure("next")
        if step is None:
            if not take_tasks(tasks, count):
                break
            continue
        id_ = step["event_id"]
        if step["step"] == "new":
            task = step["event"]["task"]
            do_effect(effects, id_, task)
            count += 1
            done = perdure("commit", "--event", id_, "--say", f"user={task}", "--set", f"count={count}",
                           "--reply-text", f"number {count} is done")
            replies.append(id_, done["reply"])  # only now: it is saved
        elif not replies.has(id_):  # it may have left before the crash
            replies.append(id_, step["reply"])
        perdure("sent", id_)
    print(f"{count} tasks are done")


main()
