#!/usr/bin/env python3
"""Random REST operations against a service, compared with a model in memory.

The service is crates/marmota/examples/soak_server.rs. Each client owns the
notes with its own `owner` and the labels whose code begins with its number, so
that every answer is decidable while clients run at once. The model knows
nothing of the service but its REST interface. Standard library only.
"""

import argparse
import http.client
import json
import random
import sys
import threading
import urllib.parse

WORDS = ["alpine", "marmot", "meadow", "dog", "snow", "stone", "river", "pine"]
TEXT_MAX = 40


class Mismatch(Exception):
    """The service answered otherwise than the model."""


class Client:
    """One client: its connection, its rows in the model, its random numbers."""

    def __init__(self, address, number, seed):
        self.address, self.number = address, number
        self.random = random.Random(seed * 1_000_003 + number)
        self.http = http.client.HTTPConnection(address, timeout=60)
        self.notes, self.labels, self.gone, self.history = {}, {}, [], {}
        self.serial, self.counts = 0, {}

    # -- wire ---------------------------------------------------------------

    def ask(self, method, path, body=None, headers=None):
        sent = dict(headers or {})
        data = None
        if body is not None:
            data = json.dumps(body)
            sent["Content-Type"] = "application/json"
        self.http.request(method, path, data, sent)
        answer = self.http.getresponse()
        text = answer.read()
        try:
            value = json.loads(text) if text else None
        except ValueError:
            raise Mismatch(f"{method} {path}: {answer.status} is no JSON: {text[:200]!r}")
        self.counts[answer.status] = self.counts.get(answer.status, 0) + 1
        return answer.status, value, answer.headers

    def check(self, what, got, wanted):
        if got != wanted:
            raise Mismatch(f"{what}:\n  service: {got!r}\n  model:   {wanted!r}")

    # -- values -------------------------------------------------------------

    def pick(self, *choices):
        return self.random.choice(choices)

    def text(self):
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 4)))

    def some_note(self):
        """The id of a note that is there, or at times of one that is gone."""
        if self.gone and self.random.random() < 0.1:
            return self.random.choice(self.gone)
        return self.random.choice(sorted(self.notes)) if self.notes else None

    def row(self):
        row = {"owner": self.number, "name": self.text()}
        for field, make in [
            ("number", lambda: self.random.randint(-5, 5)),
            ("weight", lambda: self.random.randint(-8, 8) / 4),
            ("done", lambda: self.random.random() < 0.5),
            ("code", self.code),
        ]:
            if self.random.random() < 0.6:
                row[field] = make() if self.random.random() < 0.85 else None
        row.setdefault("done", False)
        if row["done"] is None:
            row["done"] = False
        return row

    def code(self):
        return f"{self.number}-{self.random.randint(0, 40)}"

    def fault(self, row):
        """Makes a row break a rule; gives the field."""
        field, value = self.pick(
            ("name", ""), ("name", "x" * (TEXT_MAX + 1)), ("number", 1_000_001), ("number", "x")
        )
        row[field] = value
        return field

    @staticmethod
    def whole(row):
        return {field: row.get(field) for field in ("owner", "name", "number", "weight", "done", "code")}

    def holder(self, code, but=None):
        """The note that has a code."""
        if code is None:
            return None
        return next((id for id, n in self.notes.items() if n["code"] == code and id != but), None)

    # -- the model's writes -------------------------------------------------

    def made(self, id, row):
        self.notes[id] = {"id": id, **self.whole(row), "version": 1}
        self.history[id] = [("insert", 1)]

    def changed(self, id, fields, action="update"):
        note = self.notes[id]
        note.update(fields)
        note["version"] += 1
        self.history[id].append((action, note["version"]))

    def dropped(self, id):
        note = self.notes.pop(id)
        self.gone.append(id)
        self.history[id].append(("delete", None))

    def refers(self, id):
        return any(label["note"] == id for label in self.labels.values())

    # -- operations ---------------------------------------------------------

    def insert(self):
        row = self.row()
        broken = self.fault(row) if self.random.random() < 0.15 else None
        status, value, _ = self.ask("POST", "/api/note", row)
        if broken:
            self.check(f"insert {row}", status, 422)
            self.check("its field", {e["field"] for e in value["errors"]}, {broken})
        elif self.holder(row.get("code")):
            self.check(f"insert {row}", status, 409)
        else:
            self.check(f"insert {row}", status, 201)
            self.made(value["id"], row)
            self.check("inserted", value, self.notes[value["id"]])

    def upsert(self):
        row = self.row()
        row["code"] = self.code()
        status, value, _ = self.ask("POST", "/api/note?on_conflict=update", row)
        there = self.holder(row["code"])
        if there is None:
            self.check(f"upsert {row}", status, 201)
            self.made(value["id"], row)
        else:
            self.check(f"upsert {row}", status, 200)
            self.changed(there, row)
        self.check("upserted", value, self.notes[value["id"]])

    def patch(self):
        id = self.some_note()
        if id is None:
            return
        fields = {f: v for f, v in self.row().items() if self.random.random() < 0.5}
        fields["owner"] = self.number
        headers, stale = {}, False
        note = self.notes.get(id)
        if note and self.random.random() < 0.4:
            stale = self.random.random() < 0.4
            headers["If-Match"] = f'"v{note["version"] + stale}"'
        status, value, answered = self.ask("PATCH", f"/api/note/{id}", fields, headers)
        what = f"patch {id} {fields} {headers}"
        if note is None:
            self.check(what, status, 404)
        elif stale:
            self.check(what, status, 412)
        elif self.holder(fields.get("code"), id):
            self.check(what, status, 409)
        else:
            self.check(what, status, 200)
            self.changed(id, fields)
            self.check("patched", value, note)
            self.check("its ETag", answered["ETag"], f'"v{note["version"]}"')

    def delete(self):
        id = self.some_note()
        if id is None:
            return
        status, _, _ = self.ask("DELETE", f"/api/note/{id}")
        if id not in self.notes:
            self.check(f"delete {id}", status, 404)
        elif self.refers(id):
            self.check(f"delete {id}, which a label refers to", status, 409)
        else:
            self.check(f"delete {id}", status, 204)
            self.dropped(id)

    def increment(self):
        id = self.some_note()
        if id not in self.notes:
            return
        note, by = self.notes[id], self.random.randint(-3, 3)
        status, value, _ = self.ask("POST", f"/api/note/{id}/number/increment", {"by": by})
        if note["number"] is None:
            self.check(f"increment {id}, which is null", status, 422)
        else:
            self.check(f"increment {id} by {by}", status, 200)
            self.changed(id, {"number": note["number"] + by}, "increment")
            self.check("incremented", value["number"], note["number"])

    def label(self):
        code = f"{self.number}-{self.random.randint(0, 9)}"
        if code in self.labels and self.random.random() < 0.5:
            status, _, _ = self.ask("DELETE", f"/api/label/{code}")
            self.check(f"delete label {code}", status, 204)
            del self.labels[code]
            return
        note = self.some_note() if self.random.random() < 0.8 else None
        row = {"code": code, "note": note}
        status, _, _ = self.ask("POST", "/api/label", row)
        if code in self.labels:
            self.check(f"insert label {row}", status, 409)
        elif note is not None and note not in self.notes:
            self.check(f"insert label {row}", status in (409, 422), True)
        else:
            self.check(f"insert label {row}", status, 201)
            self.labels[code] = row

    def batch(self):
        """Inserts and patches, all or none, or each by itself."""
        mode = self.pick("all", "each")
        operations, planned, used = [], [], set()
        codes = {n["code"] for n in self.notes.values()}
        for _ in range(self.random.randint(1, 5)):
            id = self.some_note()
            if id is None or id in used or self.random.random() < 0.5:
                row = self.row()
                row["code"] = self.code() if self.random.random() < 0.3 else None
                wanted = 409 if row["code"] is not None and row["code"] in codes else 201
                if wanted == 201:
                    codes.add(row["code"])
                operations.append({"insert": "note", "row": row})
                planned.append((wanted, "insert", row))
            else:
                used.add(id)
                fields = {"number": self.random.randint(-5, 5)}
                operations.append({"patch": "note", "key": id, "row": fields})
                planned.append((200 if id in self.notes else 404, "patch", (id, fields)))
        status, value, _ = self.ask("POST", "/api/batch", {"mode": mode, "operations": operations})
        wanted = [status for status, _, _ in planned]
        failed = next((at for at, status in enumerate(wanted) if status >= 400), None)
        if mode == "all" and failed is not None:
            self.check(f"batch {operations}", (status, value.get("index")), (wanted[failed], failed))
            return
        self.check(f"batch {operations}", status, 200)
        self.check(f"batch {operations}", [r["status"] for r in value["results"]], wanted)
        for result, (status, verb, what) in zip(value["results"], planned):
            if status >= 400:
                continue
            if verb == "insert":
                self.made(result["key"], what)
            else:
                self.changed(*what)

    def get(self):
        id = self.some_note()
        if id is None:
            return
        note = self.notes.get(id)
        status, value, headers = self.ask("GET", f"/api/note/{id}")
        self.check(f"get {id}", (status, value if note else None), (200, note) if note else (404, None))
        if note:
            same, _, _ = self.ask("GET", f"/api/note/{id}", headers={"If-None-Match": headers["ETag"]})
            self.check(f"get {id} again by its ETag", same, 304)

    def changes(self):
        if not self.history:
            return
        id = self.random.choice(sorted(self.history))
        status, value, _ = self.ask("GET", f"/api/note/{id}/history?fields=action,version&limit=1000")
        got = [(row["action"], row["version"]) for row in value["rows"]]
        self.check(f"history of {id}", (status, got), (200, self.history[id]))

    # -- lists --------------------------------------------------------------

    def leaf(self):
        """The text of a condition, and what it says of a note: True, False or None."""
        field = self.pick("number", "weight", "name", "code", "done")
        if self.random.random() < 0.15:
            words = self.random.sample(WORDS, 2)
            text, test = self.pick(
                (words[0], lambda n: words[0] in n["name"].split()),
                (words[0][:3] + "*", lambda n: any(w.startswith(words[0][:3]) for w in n["name"].split())),
                (f"{words[0]} -{words[1]}", lambda n: words[0] in n["name"].split() and words[1] not in n["name"].split()),
                (f'"{words[0]} {words[1]}"', lambda n: f" {words[0]} {words[1]} " in f" {n['name']} "),
            )
            return f"@ '{text}'", test
        if field == "done":
            value = self.random.random() < 0.5
            return f"done = {str(value).lower()}", lambda n: n["done"] == value
        if field in ("code", "number", "weight") and self.random.random() < 0.2:
            return f"{field} = null", lambda n: n[field] is None
        if field == "name" and self.random.random() < 0.5:
            part = self.random.choice(WORDS)[:4]
            symbol = self.pick("~", "^")
            test = {"~": lambda n: part in n["name"], "^": lambda n: n["name"].startswith(part)}[symbol]
            return f"name {symbol} '{part.upper()}'", test
        value = {
            "number": lambda: self.random.randint(-5, 5),
            "weight": lambda: self.random.randint(-8, 8) / 4,
            "name": self.text,
            "code": self.code,
        }[field]()
        shown = f"'{value}'" if isinstance(value, str) else str(value)
        symbol = self.pick("=", "!=", "<", "<=", ">", ">=", "in")
        compare = {
            "=": lambda a: a == value, "!=": lambda a: a != value, "<": lambda a: a < value,
            "<=": lambda a: a <= value, ">": lambda a: a > value, ">=": lambda a: a >= value,
            "in": lambda a: a == value,
        }[symbol]
        text = f"{field} in ({shown})" if symbol == "in" else f"{field} {symbol} {shown}"
        return text, lambda n: None if n[field] is None else compare(n[field])

    def condition(self, depth=0):
        kind = self.random.random()
        if depth == 3 or kind < 0.4:
            return self.leaf()
        text, test = self.condition(depth + 1)
        if kind < 0.55:
            def opposite(note):
                said = test(note)
                return None if said is None else not said
            return f"not ({text})", opposite
        other_text, other = self.condition(depth + 1)
        if kind < 0.8:
            def both(note):
                said = (test(note), other(note))
                return False if False in said else None if None in said else True
            return f"({text} and {other_text})", both

        def either(note):
            said = (test(note), other(note))
            return True if True in said else None if None in said else False
        return f"({text} or {other_text})", either

    def list(self):
        text, test = self.condition()
        fields = self.random.sample(["name", "number", "weight", "done", "code", "version"], self.random.randint(0, 3))
        order = [(field, self.random.random() < 0.5) for field in fields]
        # The key is the last, in the direction of the last field.
        keys = order + [("id", order[-1][1] if order else False)]
        wanted = [n for n in self.notes.values() if test(n) is True]
        for field, descending in reversed(keys):
            wanted.sort(key=lambda n: (n[field] is not None, 0 if n[field] is None else n[field]), reverse=descending)
        query = {"filter": f"owner = {self.number} and ({text})"}
        if order:
            query["order"] = ",".join(("-" if descending else "") + field for field, descending in order)
        limit = self.random.randint(1, 12)
        path = "/api/note?" + urllib.parse.urlencode({**query, "limit": limit, "count": "true"})
        found, first = [], True
        while path:
            status, value, _ = self.ask("GET", path)
            self.check(f"list {query}", status, 200)
            if first:
                self.check(f"count of {query}", value.get("count"), len(wanted))
            first, path = False, value["next"]
            found += value["rows"]
            self.check(f"rows on a page of {query}", len(value["rows"]) <= limit, True)
        self.check(f"list {query} by {limit}", found, wanted)

    def delete_some(self):
        text, test = self.leaf()
        query = f"owner = {self.number} and number > 3 and ({text})"
        gone = [i for i, n in self.notes.items() if n["number"] is not None and n["number"] > 3 and test(n) is True]
        status, value, _ = self.ask("DELETE", "/api/note?" + urllib.parse.urlencode({"filter": query}))
        if any(self.refers(id) for id in gone):
            self.check(f"delete {query}, which labels refer to", status, 409)
            return
        self.check(f"delete {query}", (status, value), (200, {"deleted": len(gone)}))
        for id in gone:
            self.dropped(id)

    def malformed(self):
        path, wanted = self.pick(
            ("/api/note?filter=nmae = 1", 400), ("/api/note?filter=number == 1", 400),
            ("/api/note?filter=number > '1'", 400), ("/api/note?limit=0", 400),
            ("/api/note?order=nmae", 400), ("/api/note?colour=1", 400), ("/api/note/x", 400),
            ("/api/nothing", 404), ("/api/note/01890a5d-ac96-774b-bcce-b302099a8057", 404),
        )
        status, value, _ = self.ask("GET", path.replace(" ", "%20"))
        self.check(path, (status, value["status"]), (wanted, wanted))

    def run(self, operations):
        verbs = (
            [self.insert] * 5 + [self.patch] * 5 + [self.list] * 6 + [self.get] * 3 + [self.batch] * 2
            + [self.upsert, self.upsert, self.delete, self.delete, self.increment, self.label,
               self.label, self.changes, self.delete_some, self.malformed]
        )
        done = 0
        while done < operations:
            verb = self.random.choice(verbs)
            # So many rows that lists stay short.
            if len(self.notes) > 60 and verb in (self.insert, self.batch):
                verb = self.delete
            verb()
            done += 1
        # At the end all that is there, row by row.
        status, value, _ = self.ask("GET", f"/api/note?owner={self.number}&limit=1000")
        self.check("all notes", value["rows"], sorted(self.notes.values(), key=lambda n: n["id"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="HOST:PORT of the service")
    parser.add_argument("--operations", type=int, default=100_000, help="of all clients together")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    clients = [Client(given.address, number + 1, given.seed) for number in range(given.clients)]
    faults = []

    def run(client):
        try:
            client.run(given.operations // given.clients)
        except Exception as error:  # a fault of this program is one as well
            faults.append(f"client {client.number}, seed {given.seed}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = {}
    for client in clients:
        for status, count in client.counts.items():
            statuses[status] = statuses.get(status, 0) + count
    print(f"{given.operations} operations, {given.clients} clients, answers {dict(sorted(statuses.items()))}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
