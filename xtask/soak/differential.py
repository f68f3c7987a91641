#!/usr/bin/env python3
"""Random REST operations against a service, compared with a model in memory.

The service is apps/marmota/examples/soak_server.rs, started by its path, or a
running one at an address. Each client owns the notes with its number as `owner`
and the labels whose code begins with its number, so the result of every
operation is determined although clients run concurrently. Odd clients write to
the tables with history, even ones to those without. One note is shared: its sum
and version are determined at the end, and never decrease. The model (model.py,
conditions.py) is based on the REST interface alone. Needs only the standard
library.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
import urllib.parse

import conditions
from client import Mismatch
from reads import Reads
from service import Connection, Service
from writes import Writes

ROWS_MAX = 60


class Differential(Writes, Reads):
    """A client that executes all operations."""

    def share(self):
        """Writes or reads the note that all clients write to. Its version never decreases."""
        path = f"/api/{self.note}/{self.shared}"
        if self.chance(0.4):
            by = self.random.randint(-3, 3)
            self.check_status("increment", self.ask("POST", path + "/number/increment", {"by": by}), 200)
            self.shared_sum += by
            self.shared_writes += 1
            self.shared_seen += 1
            return
        answer = self.ask("GET", path)
        self.check_status("the shared note", answer, 200)
        version = answer.value["version"]
        if version < self.shared_seen:
            raise Mismatch(f"version {version} of the shared note was read after {self.shared_seen}")
        self.shared_seen = version
        if self.chance(0.5):
            headers = {"If-Match": answer.headers["ETag"]}
            answer = self.ask("PATCH", path, {"name": f"by {self.number}"}, headers)
            if answer.status != 412:
                self.check_status("patch of the shared note", answer, 200)
                # The row as stored; other clients may have written to it.
                self.check("its version", answer.value["version"] > version, True)
                self.shared_writes += 1
                self.shared_seen = answer.value["version"]

    def run(self, operations):
        verbs = (
            [self.single] * 16 + [self.list] * 8 + [self.get] * 4 + [self.batch] * 4 + [self.several] * 2
            + [self.share] * 3 + [self.labels] * 2
            + [self.lines, self.photo, self.changes, self.delete_some, self.malformed]
        )
        for _ in range(operations):
            verb = self.random.choice(verbs)
            # Few enough rows that lists are short.
            if len(self.model.notes) > ROWS_MAX and verb in (self.batch, self.several, self.lines):
                verb = self.trim
            verb()
        # At the end, all existing rows one by one.
        answer = self.ask("GET", f"/api/{self.note}?owner={self.number}&limit=1000")
        notes = sorted(self.model.notes.values(), key=lambda note: note["id"])
        self.check("all notes", answer.value["rows"], [self.shown(note) for note in notes])

    def print_state(self):
        """Prints the ids after a mismatch, and the last requests."""
        answer = Connection(self.connection.address).ask("GET", f"/api/{self.note}?owner={self.number}&limit=1000")
        there = {row["id"] for row in answer.value["rows"]} if answer.status == 200 else answer.value
        print(f"  ids at the service: {sorted(there)}", flush=True)
        print(f"  ids of the model:   {sorted(self.model.notes)}", flush=True)
        for entry in list(self.trail)[-8:]:
            print(f"  last: {repr(entry)[:1_000]}", flush=True)

    def trim(self):
        """Deletes the rows that no row refers to, with a filter of their ids."""
        ids = [id for id in sorted(self.model.notes) if not self.model.is_referred(id)][:30]
        query = f"id in ({', '.join(map(conditions.quoted, ids))})"
        answer = self.ask("DELETE", f"/api/{self.note}?" + urllib.parse.urlencode({"filter": query}))
        self.model.drop_all(ids)
        self.check(f"delete {query}", (answer.status, answer.value), (200, {"deleted": len(ids)}))


def compare(address, operations, number, seed, is_plain):
    """Runs the clients and prints the differences. Returns True if there are none."""
    clients = [Differential(address, at + 1, seed, is_plain) for at in range(number)]
    shared = {}
    for client in clients:
        if client.note not in shared:
            row = {"owner": 0, "name": "shared", "number": 0, "done": False}
            shared[client.note] = client.ask("POST", f"/api/{client.note}", row).value["id"]
        client.shared = shared[client.note]
    faults = []

    def run(client):
        try:
            client.run(operations // number)
        except Exception as error:  # an error of this program counts as a fault
            faults.append(f"client {client.number}, seed {seed}: {type(error).__name__}: {error}")
            print(faults[-1], flush=True)
            for line in client.trail_of(str(error)):
                print(f"  before: {line}", flush=True)
            client.print_state()

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for note, id in shared.items():
        mine = [client for client in clients if client.note == note]
        # The connections of clients that ended early may have been closed.
        value = Connection(address).ask("GET", f"/api/{note}/{id}").value
        wanted = (sum(c.shared_sum for c in mine), 1 + sum(c.shared_writes for c in mine))
        if (value["number"], value["version"]) != wanted and not faults:
            faults.append(f"the shared row of {note}: {value}, wanted {wanted}")
            print(faults[-1])
    statuses = {}
    for client in clients:
        for status, count in client.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    print(f"{operations} operations, {number} clients, answers {dict(sorted(statuses.items()))}")
    return not faults


class Replica:
    """The simulated MongoDB replica set of that engine's tests."""

    def __init__(self, profile):
        cargo = os.environ.get("CARGO", "cargo")
        words = [cargo, "test", "--locked", "--profile", profile, "-p", "marmota-mongo", "--test", "it", "--"]
        words += ["--ignored", "--exact", "served::serves_a_replica_set", "--nocapture"]
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        self.process = subprocess.Popen(
            words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        lines = (line.strip() for line in self.process.stdout)
        self.url = next((line.split()[1] for line in lines if line.startswith("serves ")), None)
        if self.url is None:
            raise RuntimeError("the replica set did not start")

    def end(self):
        """Its exit code: 0 if it found no violation of the protocol."""
        self.process.stdin.close()
        print(self.process.stdout.read().strip()[-2_000:])
        return self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="HOST:PORT of a service")
    parser.add_argument("--server", help="path of the example soak_server, to start")
    parser.add_argument("--url", default="memory:", help="URL of its database; `replica:` starts a replica set")
    parser.add_argument("--profile", default="release", help="build profile of the replica set's program")
    parser.add_argument("--cache", action="store_true", help="use a cache")
    parser.add_argument("--plain", action="store_true", help="without models and operations that need transactions")
    parser.add_argument("--operations", type=int, default=100_000, help="total of all clients")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    begun = time.monotonic()
    numbers = (given.operations, given.clients, given.seed, given.plain)
    if given.address:
        sys.exit(0 if compare(given.address, *numbers) else 1)
    arguments = ["--cache"] * given.cache + ["--plain"] * given.plain
    replica = Replica(given.profile) if given.url == "replica:" else None
    service = Service(given.server, replica.url if replica else given.url, *arguments)
    try:
        same = compare(service.wait().address, *numbers)
    finally:
        code = service.end()
        for line in service.lines[-20:]:
            print(f"  log: {line}")
        code = replica.end() or code if replica else code
    print(f"{time.monotonic() - begun:.0f} s; the service ended with {code}; "
          f"the answers {'match' if same else 'differ from'} the model")
    sys.exit(0 if same and code == 0 else 1)


if __name__ == "__main__":
    main()
