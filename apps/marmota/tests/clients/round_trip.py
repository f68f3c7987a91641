"""Every kind of field, filter, relation, batch, upload, live query and error, by a generated client.

`mypy --strict` checks this file against the types of the client.
"""

import base64
import datetime
import hashlib
import hmac
import http.client
import io
import os
import threading
import time
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shop import Condition, Problem, Shop, count, count_of, near, search, within
from shop import ProductColumns, ProductInsert
from shop.runtime import Response


def check(what: str, value: object, wanted: object) -> None:
    if value != wanted:
        raise AssertionError(f"{what}: {value!r} instead of {wanted!r}")


def problem(call: Callable[[], object]) -> Problem:
    try:
        call()
    except Problem as error:
        return error
    raise AssertionError("the call should fail")


url = os.environ["SHOP_URL"]
shop = Shop(url)
check("refused", problem(shop.product.list().all).status, 401)
password = "correct horse battery"
shop.set_password("admin", os.environ["SHOP_TOKEN"], password)
shop.sign_in("admin", password)
check("caller", shop.me()["name"], "admin")

# Every kind, from the insert to the list.
tools = shop.category.insert({"name": "Ada's \\ tools"})
inserted: ProductInsert = {
    "name": "Hammer",
    "available": True,
    "stock": 7,
    "weight": 1.25,
    "price": Decimal("922337203685477.5807"),
    "data": b"\x01\x02\x03",
    "options": {"sizes": [1.5, {"unit": "cm"}]},
    "made_on": datetime.date(2026, 2, 28),
    "opens_at": datetime.time(9, 30),
    "sold_at": datetime.datetime(2026, 11, 26, 10, 0, 0, 500_000, datetime.timezone.utc),
    "code": uuid.UUID("0190a5c2-4d5e-7f00-8000-000000000001"),
    "state": "on_sale",
    "category": tools["id"],
    "position": [0.5, -1.0, 2.0],
    "lat": 48.137,
    "lon": 11.575,
    "sku": "AB12",
}
hammer = shop.product.insert(inserted)
key = hammer["id"]
for name, value in inserted.items():
    if name != "data":
        check(name, dict(hammer)[name], value)
check("types", [type(hammer["price"]), type(hammer["weight"]), type(hammer["code"])], [Decimal, float, uuid.UUID])
check("kept", [hammer["version"], hammer["photo"], hammer["created"]], [1, None, hammer["updated"]])
part = shop.product.select(["name", "data"], where=lambda p: p.id == key).first()
check("blob", part, {"name": "Hammer", "data": b"\x01\x02\x03"})
empty = shop.product.insert({"name": "Nothing", "available": False, "price": Decimal(0)})
check("defaults", [empty["stock"], empty["state"], empty["weight"]], [0, "draft", None])
shop.tag.insert({"name": "a/b ?"})
check("text key", shop.tag.get("a/b ?"), {"name": "a/b ?"})
note = shop.note.insert({"text": "solid", "product": key, "tag": "a/b ?"})
check("uuid key", shop.note.get(note["id"])["text"], "solid")


# Every condition.
def names(where: Callable[[ProductColumns], Condition] | Condition | str) -> str:
    return ",".join(product["name"] for product in shop.product.list(where=where, order="id"))


for what, text, wanted in [
    ("eq", names(lambda p: p.name == "Hammer"), "Hammer"),
    ("ne", names(lambda p: p.state != "draft"), "Hammer"),
    ("null", names(lambda p: p.weight == None), "Nothing"),  # noqa: E711
    ("lt", names(lambda p: p.price < Decimal(1)), "Nothing"),
    ("le", names(lambda p: p.stock <= 0), "Nothing"),
    ("gt", names(lambda p: p.weight > 1), "Hammer"),
    ("ge", names(lambda p: p.made_on >= datetime.date(2026, 2, 28)), "Hammer"),
    ("in", names(lambda p: p.state.is_in(["on_sale", "gone"])), "Hammer"),
    ("not in", names(lambda p: p.id.not_in([key])), "Nothing"),
    ("boolean", names(lambda p: p.available == False), "Nothing"),  # noqa: E712
    ("contains", names(lambda p: p.name.contains("AMM")), "Hammer"),
    ("starts", names(lambda p: p.name.starts_with("noth")), "Nothing"),
    ("words", names(lambda p: p.name.matches("hammer")), "Hammer"),
    ("search", names(search("nothing")), "Nothing"),
    ("near", names(lambda p: near(p.lat, p.lon, 48.1, 11.5, 10_000)), "Hammer"),
    ("far", names(lambda p: near(p.lat, p.lon, 48.1, 11.5, 1_000)), ""),
    ("within", names(lambda p: within(p.lat, p.lon, 48, 170, 49, 12.5)), "Hammer"),
    (
        "related point",
        names(
            lambda p: p.note.any(
                lambda n: near(n.product.to.lat, n.product.to.lon, 48.137, 11.575, 0)
            )
        ),
        "Hammer",
    ),
    ("and", names(lambda p: (p.stock > 1) & (p.available == True)), "Hammer"),  # noqa: E712
    ("or", names(lambda p: (p.stock > 1) | (p.price == Decimal(0))), "Hammer,Nothing"),
    ("not", names(lambda p: ~(p.stock > 1)), "Nothing"),
    ("text", names("name = 'Hammer'"), "Hammer"),
    ("json", names(lambda p: p.options.at("sizes", 1, "unit") == "cm"), "Hammer"),
    ("exists", names(lambda p: p.options.at("sizes").exists()), "Hammer"),
    ("file", names(lambda p: p.photo == None), "Hammer,Nothing"),  # noqa: E711
    ("uuid", names(lambda p: p.code == inserted["code"]), "Hammer"),
    ("timestamp", names(lambda p: p.sold_at < datetime.datetime(2027, 1, 1)), "Hammer"),
    ("time", names(lambda p: p.opens_at == datetime.time(9, 30)), "Hammer"),
    ("reference", names(lambda p: p.category == tools["id"]), "Hammer"),
    ("to one", names(lambda p: p.category.to.name == "Ada's \\ tools"), "Hammer"),
    ("any", names(lambda p: p.note.any(lambda n: n.tag == "a/b ?")), "Hammer"),
    ("none", names(lambda p: p.note.none()), "Nothing"),
    ("count", names(lambda p: p.note.count(lambda n: n.text == "solid") >= 1), "Hammer"),
]:
    check(what, text, wanted)

# Relations in answers, from both sides.
shop.category.insert({"name": "Small", "parent": tools["id"]})
expanded = shop.category.list(
    where=lambda c: c.id == tools["id"],
    expand={"product": {"order": "-price", "limit": 1, "expand": {"note": True}}, "category": True, "parent": True},
).first()
assert expanded is not None
product = expanded["expand"]["product"][0]
check("expand", product["expand"]["note"][0]["text"], "solid")
check("conversion", [product["price"], product["made_on"]], [inserted["price"], datetime.date(2026, 2, 28)])
check("expand", [expanded["expand"]["category"][0]["name"], expanded["expand"]["parent"]], ["Small", None])
category = shop.product.get(key, expand={"category": {"fields": ["name"]}})["expand"]["category"]
check("expand", category, {"name": "Ada's \\ tools"})
shop.link.insert({"from_category": tools["id"], "to_category": tools["id"]})
linked = shop.category.get(tools["id"], expand={"link:from_category": True})
check("relation with a field", len(linked["expand"]["link:from_category"]), 1)

# Pages.
keys = shop.category.insert_many([{"name": f"c{n:03}"} for n in range(250)])["keys"]
check("keys", len(keys), 250)
seen = [one["name"] for one in shop.category.list(where=lambda c: c.name.starts_with("c"), order=["-name"], page_rows=40)]
check("rows", [len(seen), seen[0], seen[249]], [250, "c249", "c000"])
check("limit", len(shop.category.list(limit=130).all()), 130)
check("count", shop.category.count(lambda c: c.name.starts_with("c")), 250)
check("page", shop.category.list(limit=1, count=True).page().count, 252)

# Writes.
patched = shop.product.patch(key, {"stock": 8, "options": None}, version=1)
check("patch", [patched["stock"], patched["options"], patched["version"]], [8, None, 2])
check("increment", shop.product.increment(key, "stock", 2), 10)
replaced = shop.product.update(empty["id"], {"name": "Something", "available": True, "price": Decimal("1.5")})
check("update", [replaced["name"], replaced["price"]], ["Something", Decimal("1.5")])
check("increment", shop.product.increment(empty["id"], "price", Decimal("0.25")), Decimal("1.75"))
check("delete where", shop.category.delete_where(lambda c: c.name.starts_with("c")), 250)

# Groups.
groups = shop.product.group_by(
    lambda p: (p.state, p.category),
    where=lambda p: p.id <= empty["id"],
    having=lambda p: (count() >= 1) & (p.price.max() > Decimal(0)),
    order="-max_price",
).select(lambda p: (count(), p.price.max(), p.stock.avg()))
check("groups", groups, [(("on_sale", tools["id"]), (1, inserted["price"], 10.0)), (("draft", None), (1, Decimal("1.75"), 0.0))])
(state, _), (rows, dearest, mean) = groups[0]
dearest_price: Decimal | None = dearest
check("types", [type(rows), type(dearest_price), type(mean), state], [int, Decimal, float, "on_sale"])
check("different values", shop.product.group_by(lambda p: (p.made_on,)).keys(), [(None,), (datetime.date(2026, 2, 28),)])
by_name = shop.product.group_by(
    lambda p: (p.category.field(lambda c: c.name), p.state), where=lambda p: p.id <= empty["id"], order="-category_name"
).select(lambda p: (count(),))
category_name: str | None = by_name[0][0][0]
check("related groups", [by_name, category_name], [[(("Ada's \\ tools", "on_sale"), (1,)), ((None, "draft"), (1,))], "Ada's \\ tools"])
notes = shop.note.group_by(
    lambda n: (n.product.field(lambda p: p.category.field(lambda c: c.name)), n.product.field(lambda p: p.made_on))
).select(lambda n: (count(),))
check("groups over two references", notes, [(("Ada's \\ tools", datetime.date(2026, 2, 28)), (1,))])
weight: float | None = shop.product.aggregate(lambda p: p.weight.sum(), where=lambda p: p.stock > 1)
check("aggregate", [weight, shop.product.aggregate(lambda p: count_of(p.weight))], [1.25, 1])

# History, also of a deleted row.
gone = shop.product.insert({"name": "Gone", "available": True, "price": Decimal("3.5"), "data": b"123"})
shop.product.delete(gone["id"])
entries = shop.product.history(gone["id"]).all()
check("history", [(entry["action"], entry["actor"]) for entry in entries], [("insert", "admin"), ("delete", "admin")])
fields = entries[0]["fields"]
assert fields is not None
check("history", [fields["price"], type(entries[0]["at"]), entries[1]["fields"]], [Decimal("3.5"), datetime.datetime, None])
newest = shop.product.history(key, order="-id").first()
assert newest is not None and newest["fields"] is not None
check("newest entry", [newest["action"], newest["fields"]["stock"]], ["increment", 10])

# A row with related rows.
kit = shop.product.insert_nested(
    {
        "name": "Kit",
        "available": True,
        "price": Decimal(5),
        "category": {"name": "Kits", "parent": tools["id"]},
        "note": [{"text": "a"}, {"text": "b", "tag": {"name": "new tag"}}],
    }
)
a, b = (one["id"] for one in kit["note"])
check("types", type(b), uuid.UUID)
check("nested", [shop.product.get(kit["id"])["category"], shop.note.get(b)["tag"]], [kit["category"]["id"], "new tag"])
shop.product.patch_nested(
    kit["id"],
    {
        "stock": 1,
        "category": {"id": kit["category"]["id"], "name": "Sets"},
        "note": {"create": [{"text": "c"}], "update": [{"id": b, "text": "bb"}], "delete": [a]},
    },
)


def texts() -> list[str]:
    return sorted(one["text"] for one in shop.note.list(where=lambda n: n.product == kit["id"]))


check("nested", [texts(), shop.category.get(kit["category"]["id"])["name"]], [["bb", "c"], "Sets"])
shop.product.patch_nested(kit["id"], {"note": {"set": [{"id": b}]}})
check("set", texts(), ["bb"])
shop.product.delete(kit["id"])
shop.tag.delete("new tag")

# Errors.
check("stale", problem(lambda: shop.product.patch(key, {"stock": 1}, version=1)).status, 412)
invalid = problem(lambda: shop.product.insert({"name": "", "available": True, "price": Decimal(1), "sku": "x"}))
check("invalid", [invalid.status, sorted((one.field, one.rule) for one in invalid.violations)], [422, [("name", "not_empty"), ("sku", "pattern")]])
check("conflict", problem(lambda: shop.category.insert({"name": "Small"})).status, 409)
check("missing", problem(lambda: shop.product.get(99)).status, 404)

# Batches with handles.
batch = shop.batch()
garden = batch.category.insert({"name": "Garden"})
rake = batch.product.insert({"name": "Rake", "available": True, "price": Decimal(8), "category": garden})
leaf = batch.note.insert({"text": "for leaves", "product": rake})
batch.product.increment(rake, "stock", 3)
batch.run()
stored = shop.product.get(rake.key)
check("batch", [stored["stock"], stored["category"], type(leaf.key)], [3, garden.key, uuid.UUID])
each = shop.batch()
fails = each.category.insert({"name": "Garden"})
works = each.product.patch(rake.key, {"stock": 4})
each.run(mode="each")
check("each", [fails.error and fails.error.status, works.error], [409, None])
whole = shop.batch()
whole.category.insert({"name": "Undone"})
whole.category.insert({"name": "Garden"})
check("all", problem(whole.run).status, 409)
check("all", shop.category.count(lambda c: c.name == "Undone"), 0)

# Files and blobs.
file = shop.product.upload(key, "photo", b"marmots", name="Grüße (1).txt", type="text/plain")
check("file", [file["name"], file["type"], file["bytes"]], ["Grüße (1).txt", "text/plain", 7])
check("file", shop.product.download(key, "photo"), b"marmots")
signed = shop.product.signed_url(key, "photo", expires_in=60)
check("signed", Shop(url).request("GET", signed).body, b"marmots")
shop.product.remove_file(key, "photo")
check("removed", shop.product.get(key)["photo"], None)


class LossyShop(Shop):
    """Loses the answers to a part in the middle and to the last part."""

    losses = 2

    def request(self, method: str, path: str, **options: Any) -> Response:
        response = super().request(method, path, **options)
        offset = int((options.get("headers") or {}).get("Upload-Offset", 0))
        if method == "PATCH" and self.losses == (1 if offset > 100_000 else 2):
            self.losses -= 1
            raise http.client.RemoteDisconnected("the connection was lost")
        return response


lossy = LossyShop(url, token=shop.token)
long = b"marmot " * 30_000
sent: list[int] = []
resumed = lossy.product.upload_in_parts(
    key, "photo", io.BytesIO(long), name="Lied (2).txt", type="text/plain", part_bytes=70_000,
    on_progress=lambda _url, done, _all: sent.append(done),
)
check("parts", [resumed["name"], resumed["type"], resumed["bytes"]], ["Lied (2).txt", "text/plain", 210_000])
check("parts", [sent, lossy.losses, shop.product.download(key, "photo") == long], [[0, 70_000, 140_000], 0, True])
shop.product.remove_file(key, "photo")
shop.product.write_blob(key, "data", b"\x00\xff")
check("blob", shop.product.download(key, "data"), b"\x00\xff")

# Live queries, also from another thread.
states = []
inserts = ["m", "z", "n"]
with shop.tag.live(order="-name", limit=2, count=True) as live:
    for page in live:
        states.append(f"{','.join(tag['name'] for tag in page.rows)} of {page.count}")
        if not inserts:
            break
        shop.tag.insert({"name": inserts.pop(0)})
check("live", states, ["a/b ? of 1", "m,a/b ? of 2", "z,m of 3", "z,n of 4"])
prices = shop.product.live(where=lambda p: p.id == empty["id"])
received: list[Decimal] = []
first = threading.Event()


def follow() -> None:
    for page in prices:
        received.append(page.rows[0]["price"])
        first.set()


thread = threading.Thread(target=follow)
thread.start()
assert first.wait(10)
prices.close()
thread.join(10)
check("closed", [thread.is_alive(), received], [False, [Decimal("1.75")]])
check("live error", problem(lambda: list(shop.tag.live(where="unknown = 'x'"))).status, 400)



# A second factor.
def totp(secret: str) -> str:
    """The code of an authenticator app (RFC 6238)."""
    moment = int(time.time() // 30).to_bytes(8, "big")
    secret_bytes = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.new(secret_bytes, moment, hashlib.sha1).digest()
    at = digest[19] & 15
    return f"{(int.from_bytes(digest[at:at + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"


setup = shop.json("POST", "auth/totp", json={"password": password})
confirmed = shop.json("POST", "auth/totp/confirm", json={"code": totp(setup["secret"])})
shop.sign_out()
second = problem(lambda: shop.sign_in("admin", password))
check("second factor", [second.status, second.needs_code], [401, True])
shop.sign_in("admin", password, code=confirmed["recovery_codes"][0])

shop.note.delete(note["id"])
shop.sign_out()
check("signed out", problem(shop.product.list().first).status, 401)
print("done")
