"""Applies the raw events of a live list by a library for JSON Patch (jsonpatch), and compares the
result with the list that GET returns."""

import json
import os
import urllib.request

import jsonpatch

api = f"{os.environ['SHOP_URL']}/api"
headers = {"Content-Type": "application/json"}


def send(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{api}/{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read()
    return json.loads(text) if text else None


password = "correct horse battery"
send("POST", "auth/set-password", {"name": "admin", "token": os.environ["SHOP_TOKEN"], "password": password})
token = send("POST", "auth/login", {"name": "admin", "password": password})["token"]
headers["Authorization"] = f"Bearer {token}"

path = "product?order=-stock,name&limit=4&count=true&fields=id,name,stock,options,weight"
request = urllib.request.Request(f"{api}/{path}", headers={**headers, "Accept": "text/event-stream"})
events = urllib.request.urlopen(request, timeout=60)
page = None
patches = 0


def follow():
    """Applies the next event."""
    global page, patches
    event = {}
    while True:
        line = events.readline().decode().rstrip("\n")
        if not line:
            break
        name, _, value = line.partition(": ")
        event[name] = value
    if "data" not in event:
        return
    data = json.loads(event["data"])
    if event["event"] == "snapshot":
        page = data
    else:
        page = jsonpatch.apply_patch(page, data)
        patches += 1


keys = []
for step in range(60):
    key = keys[(step * 7) % len(keys)] if keys else None
    if step < 6 or step % 9 == 0:
        row = {"name": f"p{step}", "available": True, "price": 1, "stock": (step * 5) % 11}
        keys.append(send("POST", "product", row)["id"])
    elif step % 13 == 0:
        keys.remove(key)
        send("DELETE", f"product/{key}")
    elif step % 4 == 0:
        options = {"a/b": [step, {"~": None}], "list": [step] * (step % 3)}
        send("PATCH", f"product/{key}", {"options": options, "weight": step / 8})
    else:
        send("PATCH", f"product/{key}", {"stock": (step * 17) % 23})
    wanted = send("GET", path)
    while page != wanted:
        follow()
assert patches >= 30, patches
print("done")
