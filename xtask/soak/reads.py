"""Random reads of the differential test, deletes by a filter, and requests that are refused."""

import base64
import json
import urllib.parse

import conditions
from client import Client
from model import FIELDS


class Reads(Client):
    """A client that reads, and deletes by filter."""

    # -- reads --------------------------------------------------------------

    def get(self):
        id = self.some_id()
        note, path = self.model.notes.get(id), f"/api/{self.note}/{id}"
        if note and self.chance(0.2):
            answer = self.ask("GET", path + "?fields=photo,name,options")
            photo = note["photo"]
            shown = None if photo is None else base64.urlsafe_b64encode(photo).decode().rstrip("=")
            self.check(path, answer.value, {"photo": shown, "name": note["name"], "options": note["options"]})
            return
        answer = self.ask("GET", path)
        self.check_status(f"get {id}", answer, 200 if note else 404)
        if note:
            self.check(f"get {id}", answer.value, self.shown(note))
            same = self.ask("GET", path, headers={"If-None-Match": answer.headers["ETag"]})
            self.check_status(f"get {id} again by its ETag", same, 304)
            other = self.ask("GET", path, headers={"If-None-Match": f'"v{note["version"] - 1}"'})
            self.check_status(f"get {id} again by another ETag", other, 200)

    def changes(self):
        if not self.has_history or not self.model.history:
            return
        id = self.random.choice(sorted(self.model.history))
        answer = self.ask("GET", f"/api/{self.note}/{id}/history?fields=action,version&limit=1000")
        got = [(row["action"], row["version"]) for row in answer.value["rows"]]
        self.check(f"history of {id}", got, self.model.history[id])

    def list(self):
        text, test = conditions.condition(self.random, self.code)
        fields = self.random.sample(
            ["name", "number", "weight", "done", "code", "day", "version"], self.random.randint(0, 3)
        )
        order = [(field, self.chance(0.5)) for field in fields]
        # The key is last, in the direction of the last field.
        keys = order + [("id", order[-1][1] if order else False)]
        query = {"filter": f"owner = {self.number} and ({text})"}
        wanted = [note for note in self.model.notes.values() if test(note) is True]
        if self.chance(0.15):
            done = self.chance(0.5)
            query["done"] = str(done).lower()
            wanted = [note for note in wanted if note["done"] == done]
        for field, descending in reversed(keys):
            wanted.sort(key=lambda n: (n[field] is not None, 0 if n[field] is None else n[field]), reverse=descending)
        shown = [self.shown(note) for note in wanted]
        if order:
            query["order"] = ",".join(("-" if descending else "") + field for field, descending in order)
        if self.chance(0.2):
            some = self.random.sample(sorted(set(FIELDS) | {"id", "version"}), 3)
            query["fields"] = ",".join(some)
            shown = [{field: note[field] for field in some} for note in shown]
        if self.chance(0.15):
            path = f"/api/{self.note}?" + urllib.parse.urlencode(query)
            answer = self.ask("GET", path, headers={"Accept": "application/x-ndjson"})
            self.check_status(f"lines {query}", answer, 200)
            self.check(f"lines {query}", [json.loads(line) for line in answer.value.splitlines()], shown)
            return
        limit = self.random.randint(1, 12)
        path = f"/api/{self.note}?" + urllib.parse.urlencode({**query, "limit": limit, "count": "true"})
        found, is_first = [], True
        while path:
            answer = self.ask("GET", path)
            self.check_status(f"list {query}", answer, 200)
            if is_first:
                self.check(f"count of {query}", answer.value["count"], len(shown))
            is_first, path = False, answer.value["next"]
            found += answer.value["rows"]
            self.check(f"rows on a page of {query}", len(answer.value["rows"]) <= limit, True)
        self.check(f"list {query} by {limit}", found, shown)

    def delete_some(self):
        text, test = conditions.leaf(self.random, self.code)
        query = f"owner = {self.number} and number > 3 and ({text})"
        gone = [
            id for id, note in self.model.notes.items()
            if note["number"] is not None and note["number"] > 3 and test(note) is True
        ]
        answer = self.ask("DELETE", f"/api/{self.note}?" + urllib.parse.urlencode({"filter": query}))
        if self.model.drop_all(gone):
            self.check(f"delete {query}", (answer.status, answer.value), (200, {"deleted": len(gone)}))
        else:
            self.check_status(f"delete {query}, which labels refer to", answer, 409)

    def malformed(self):
        path, wanted = self.random.choice([
            ("?filter=nmae = 1", 400), ("?filter=number == 1", 400), ("?filter=number > '1'", 400),
            ("?filter=(number = 1", 400), ("?filter=name @ '-dog'", 400), ("?filter=number ~ 'x'", 400),
            ("?limit=0", 400), ("?limit=1001", 400), ("?order=nmae", 400), ("?colour=1", 400), ("/x", 400),
            ("?after=AAAA", 400), ("?fields=nmae", 400), ("/01890a5d-ac96-774b-bcce-b302099a8057", 404),
        ])
        answer = self.ask("GET", f"/api/{self.note}{path.replace(' ', '%20')}")
        self.check(path, (answer.status, answer.value["status"]), (wanted, wanted))
