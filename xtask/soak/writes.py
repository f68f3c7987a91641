"""Random writes of the differential test: single ones, arrays, NDJSON and batches."""

import json
import urllib.parse

from client import Client, Mismatch
from model import FIELDS, Result, Write


class Writes(Client):
    """A client that writes."""

    # -- writes of one row --------------------------------------------------

    def single(self):
        """A write in a separate request."""
        write = self.write()
        path, method, body, headers = f"/api/{self.note}/{write.key}", "", write.row, {}
        if write.verb == "insert":
            method, path = "POST", f"/api/{self.note}"
            if write.on_conflict != "refuse":
                path += f"?on_conflict={write.on_conflict}"
            elif self.has_history and self.chance(0.15):
                headers["Idempotency-Key"] = f"{self.number}-{self.random.getrandbits(64)}"
        elif write.verb == "increment":
            method, path, body = "POST", path + "/number/increment", {"by": write.by}
        else:
            method = {"patch": "PATCH", "update": "PUT", "delete": "DELETE"}[write.verb]
        if write.version is not None:
            if write.verb != "delete" and self.chance(0.3):
                body = {**body, "version": write.version}
            else:
                headers["If-Match"] = f'"v{write.version}"'
        is_minimal = write.verb in ("insert", "patch", "update") and self.chance(0.1)
        if is_minimal:
            headers["Prefer"] = "return=minimal"
        answer = self.ask(method, path, body, headers)
        what = f"{method} {path} {body} {headers}"
        result = self.model.apply(write)
        wanted = result.status
        if is_minimal and wanted == 200:
            wanted = 204
        self.check_status(what, answer, wanted, write.bad)
        if result.status < 300 and write.verb != "delete":
            id = result.key
            if write.verb == "insert":
                id = urllib.parse.unquote(answer.headers["Location"].rsplit("/", 1)[1])
                if result.effect in ("inserted", "replaced"):
                    self.model.rename(result.key, id)
                else:
                    self.check(f"{what}: its Location", id, result.key)
            note = self.model.notes[id]
            if write.verb == "increment":
                self.check(what, answer.value, {"number": note["number"]})
            elif not is_minimal:
                self.check(what, answer.value, self.shown(note))
                self.check(f"{what}: its ETag", answer.headers["ETag"], f'"v{note["version"]}"')
        if "Idempotency-Key" in headers and result.status < 300:
            again = self.ask(method, path, body, headers)
            self.check(f"{what}: again", (again.status, again.value), (answer.status, answer.value))
            self.check(f"{what}: again", again.headers["Idempotent-Replayed"], "true")

    def several(self):
        """An array of rows, all or nothing."""
        on_conflict = self.random.choice(["refuse", "ignore", "replace", "update"])
        rows = [self.row() for _ in range(self.random.randint(1, 4))]
        if on_conflict == "update":
            # These name the same fields.
            rows = [{field: row.get(field) for field in FIELDS} for row in rows]
        writes = [Write("insert", row=row, on_conflict=on_conflict) for row in rows]
        if self.chance(0.1):
            bad = self.random.choice(writes)
            bad.bad = self.faults(bad.row)
        path = f"/api/{self.note}" + ("" if on_conflict == "refuse" else f"?on_conflict={on_conflict}")
        answer = self.ask("POST", path, rows)
        what = f"POST {path} {rows}"
        failed, results = self.model.apply_all(writes)
        if failed is not None:
            self.check_status(what, answer, results.status)
            return
        wanted = 201 if any(result.status == 201 for result in results) or on_conflict == "refuse" else 200
        if answer.status not in (200, 201):
            self.check_status(what, answer, wanted)
        if on_conflict != "refuse":
            self.check(what, answer.value["effects"], [result.effect for result in results])
        self.keys(what, results, answer.value["keys"])

    def keys(self, what, results, keys):
        """Adopts the keys that the service assigned."""
        named = {}
        for result, key in zip(results, keys):
            if key is None:  # only inserts return a key
                continue
            if isinstance(result.key, str) and result.key.startswith("?"):
                if result.key not in named:
                    named[result.key] = key
                    if result.key in self.model.notes:
                        self.model.rename(result.key, key)
                    else:  # deleted in the same batch
                        self.model.history[key] = self.model.history.pop(result.key, ())
                self.check(f"{what}: its key", key, named[result.key])
            else:
                self.check(f"{what}: its key", key, result.key)
        self.model.gone = [named.get(id, id) for id in self.model.gone]

    def lines(self):
        """Rows as NDJSON: those before the first faulty one are stored."""
        rows = [{"id": self.new_id(), **self.row()} for _ in range(self.random.randint(1, 6))]
        writes = [Write("insert", row=row) for row in rows]
        if self.chance(0.3):
            bad = self.random.choice(writes)
            bad.bad = self.faults(bad.row)
        body = "\n".join(json.dumps(row) for row in rows).encode()
        answer = self.ask("POST", f"/api/{self.note}", body, {"Content-Type": "application/x-ndjson"})
        what = f"lines {rows}"
        for at, write in enumerate(writes):
            result = self.model.apply(write)
            if result.status >= 400:
                self.check_status(what, answer, result.status)
                self.check(what, (answer.value["line"], answer.value["inserted"]), (at + 1, at))
                return
        self.check(what, answer.value, {"inserted": len(rows)})

    def photo(self):
        id, path = self.some_id(), ""
        path = f"/api/{self.note}/{id}/photo"
        note = self.model.notes.get(id)
        if self.chance(0.5):
            answer = self.ask("GET", path)
            wanted = note["photo"] if note else None
            self.check_status(f"GET {path}", answer, 404 if wanted is None else 200)
            if wanted is not None and answer.value != wanted:
                raise Mismatch(f"GET {path}: {len(answer.value)} bytes, the model has {len(wanted)}")
            return
        size = self.random.choice([0, 1, 100, 5_000, 70_000])
        write = Write("photo", id, photo=self.random.randbytes(size))
        headers = {"Content-Type": "application/octet-stream"}
        if note and self.chance(0.3):
            write.version = note["version"] + (1 if self.chance(0.4) else 0)
            headers["If-Match"] = f'"v{write.version}"'
        answer = self.ask("PUT", path, write.photo, headers)
        result = self.model.apply(write)
        self.check_status(f"PUT {path} {headers}", answer, result.status)
        if result.status == 204:
            self.check(f"PUT {path}: its ETag", answer.headers["ETag"], f'"v{note["version"]}"')

    def labels(self):
        labels, code = self.model.labels, f"{self.number}-{self.random.randint(0, 9)}"
        if code in labels and self.chance(0.5):
            self.check_status(f"delete label {code}", self.ask("DELETE", f"/api/{self.label}/{code}"), 204)
            del labels[code]
            return
        note = self.some_id() if self.chance(0.8) else None
        row = {"code": code, "note": note}
        answer = self.ask("POST", f"/api/{self.label}", row)
        if code in labels:
            self.check_status(f"insert label {row}", answer, 409)
        elif note is not None and note not in self.model.notes:
            self.check_status(f"insert label {row}", answer, 422)
        else:
            self.check_status(f"insert label {row}", answer, 201)
            labels[code] = row

    # -- batches ------------------------------------------------------------

    def batch(self):
        """A batch of notes, all or nothing or each separately; writes may refer to earlier ones."""
        mode = self.random.choice(["all", "each"])
        if self.is_plain:
            mode = "each"
        writes = [self.write() for _ in range(self.random.randint(1, 6))]
        sent = [self.operation(write) for write in writes]
        # A write to the row that an earlier insert creates or conflicts with.
        inserts = [at for at, write in enumerate(writes) if write.verb == "insert"]
        reaches = inserts and self.chance(0.3)
        if reaches:
            at = self.random.choice(inserts)
            writes.append(Write("patch", row=self.fields()))
            sent.append({"patch": self.note, "key": {"$result": at}, "row": writes[-1].row})
        answer = self.ask("POST", "/api/batch", {"mode": mode, "operations": sent})
        what = f"batch {mode} {sent}"
        failed, results = self.carry_out(mode, writes, at if reaches else None)
        if failed is not None:
            self.check_status(what, answer, results.status)
            self.check(what, answer.value["index"], failed)
            return
        self.check_status(what, answer, 200)
        self.check(what, [r["status"] for r in answer.value["results"]], [r.status for r in results])
        self.keys(what, results, [r.get("key") for r in answer.value["results"]])

    def operation(self, write):
        """A write as a member of a batch."""
        operation = {write.verb: self.note}
        if write.verb == "insert":
            operation["row"] = write.row
            if write.on_conflict != "refuse":
                operation["on_conflict"] = write.on_conflict
            return operation
        operation["key"] = write.key
        if write.verb == "increment":
            operation.update(field="number", by=write.by)
        elif write.verb != "delete":
            operation["row"] = write.row
        if write.version is not None:
            operation["version"] = write.version
        return operation

    def carry_out(self, mode, writes, reached):
        """The model's batch; the last write is to the row of the write `reached`, if any."""
        tried, results = self.model.copied(), []
        if mode == "all":
            bad = next((at for at, write in enumerate(writes) if write.bad), None)
            if bad is not None:
                return bad, self.model.apply(writes[bad])
        for at, write in enumerate(writes):
            if reached is not None and at == len(writes) - 1:
                write.key = results[reached].key
                if write.key is None:  # of an insert that failed
                    results.append(Result(400))
                    continue
            if write.verb == "update" and write.key not in tried.notes:
                result = tried.apply(Write("delete", write.key, bad=write.bad))  # no row is made
            else:
                result = tried.apply(write)
            if mode == "all" and result.status >= 400:
                return at, result
            results.append(result)
        self.model.become(tried)
        return None, results
