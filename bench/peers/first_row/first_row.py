#!/usr/bin/env python3
"""From nothing to the first row in a browser: the time and the number of actions with Marmota and with
PocketBase.

Both stories are the same: start the program, make the first administrator, add a table with a name, a price
and a file, add a row, see it. An action is a command, an opened page, a filled control or a click.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

PASSWORD = "correct horse battery"
WAIT_MAX = 30
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

# The last visible element of a kind with these words.
BY_WORDS = """
const [selector, words] = arguments
const is = one => one.checkVisibility() && (one.textContent.trim() === words || one.ariaLabel === words)
return [...document.querySelectorAll(selector)].filter(is).at(-1) ?? null
"""
# The last visible control with this label or placeholder.
BY_LABEL = """
const [label] = arguments
const isNamed = text => text?.replace('*', '').trim() === label
const is = one => one.checkVisibility() && (isNamed(one.textContent) || isNamed(one.firstChild?.textContent))
const labelled = [...document.querySelectorAll('label')].filter(is)
const control = labelled.map(one => one.control ?? one.querySelector('input')).filter(Boolean).at(-1)
return control ?? [...document.querySelectorAll('input')].filter(one => one.checkVisibility() && one.placeholder === label).at(-1) ?? null
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Page:
    """A browser; it counts what a person would do."""

    def __init__(self, driver):
        self.driver, self.actions = driver, 0
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"]
        wanted = {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}
        self.session = self.send("POST", "/session", {"capabilities": wanted})["sessionId"]

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.driver + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def run(self, script, *arguments):
        body = {"script": script, "args": list(arguments)}
        return self.send("POST", f"/session/{self.session}/execute/sync", body)

    def until(self, what, attempt):
        """Repeats an attempt until it returns something: the page may still be changing."""
        begun, last = time.monotonic(), None
        while time.monotonic() < begun + WAIT_MAX:
            try:
                if (found := attempt()) is not None:
                    return found
            except RuntimeError as error:
                last = error
            time.sleep(0.02)
        self.picture("first-row-failed")
        raise RuntimeError(f"no {what}: {last}: {self.run('return document.body.innerText')[:500]}")

    def command(self):
        self.actions += 1

    def open(self, url):
        self.actions += 1
        self.send("POST", f"/session/{self.session}/url", {"url": url})

    def press(self, words, selector="button, a, summary, [role=button], [role=menuitem]"):
        self.actions += 1

        def click():
            found = self.run(BY_WORDS, selector, words)
            if found:
                self.send("POST", f"/session/{self.session}/element/{found[ELEMENT]}/click", {})
            return found
        self.until(words, click)

    def fill(self, label, text):
        self.actions += 1

        def write():
            found = self.run(BY_LABEL, label)
            if found:
                at = f"/session/{self.session}/element/{found[ELEMENT]}"
                self.send("POST", f"{at}/clear", {})
                self.send("POST", f"{at}/value", {"text": text})
            return found
        self.until(label, write)

    def write(self, text):
        """Types into the control that has the focus."""
        self.actions += 1
        time.sleep(0.1)
        focus = self.run("const at = document.activeElement; at.select?.(); return at")
        self.send("POST", f"/session/{self.session}/element/{focus[ELEMENT]}/value", {"text": text})

    def choose(self, selector, value):
        """Chooses a value of the list that a selector finds."""
        self.actions += 1
        script = """const at = document.querySelector(arguments[0])
            at.value = arguments[1]
            at.dispatchEvent(new Event('change'))
            return at.value"""
        if self.run(script, selector, value) != value:
            raise RuntimeError(f"{selector} has no {value}")

    def shows(self, text):
        script = "return document.body.innerText.includes(arguments[0]) || null"
        self.until(text, lambda: self.run(script, text))

    def picture(self, name):
        folder = pathlib.Path("target/admin")
        folder.mkdir(parents=True, exist_ok=True)
        picture = self.send("GET", f"/session/{self.session}/screenshot")
        (folder / f"{name}.png").write_bytes(base64.b64decode(picture))

    def close(self):
        self.send("DELETE", f"/session/{self.session}")


def served(words, folder, pattern):
    """Starts a program in a folder; returns it, and the address that it prints."""
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if found := re.search(pattern, line):
            # What it prints later is read too, so that it never waits for this program.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, found.group(0)
    raise RuntimeError(f"{words[0]} has ended without an address")


def marmota(program, page, folder):
    page.command()
    subprocess.run([program, "new", "shop"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    page.command()
    words = [program, "serve", "--listen", f"127.0.0.1:{free_port()}"]
    process, address = served(words, os.path.join(folder, "shop"), r"http://\S+#/set-password/\S+")
    page.open(address)
    page.fill("New password", PASSWORD)
    page.press("Set password")
    page.press("Tables and fields")
    page.press("New table")
    page.fill("Name of the table", "product")
    for name, kind in [("price", "currency"), ("picture", "file")]:
        page.press("Add field")
        page.write(name)
        # The first list of a field is its kind.
        page.choose("fieldset.editor:last-of-type select", kind)
    # The row has no picture.
    page.press("May be NULL", "label")
    page.press("Show changes")
    page.press("Apply")
    page.shows("Applied")
    page.press("product", "nav a")
    page.press("New row")
    page.fill("name", "Chair")
    page.fill("price", "12.50")
    page.press("Create")
    page.shows("product 1")
    fields = pathlib.Path(folder, "shop/app.toml").read_text()
    if 'price = "currency"' not in fields or 'kind = "file"' not in fields:
        raise RuntimeError(f"the table has other fields: {fields}")
    return process


def pocketbase(program, page, folder):
    page.command()
    words = [program, "serve", f"--http=127.0.0.1:{free_port()}", f"--dir={folder}/pb_data"]
    process, address = served(words, folder, r"http://\S+/pbinstall?/\S+")
    page.open(address)
    page.fill("Email", "admin@example.org")
    page.fill("Password", PASSWORD)
    page.fill("Password confirm", PASSWORD)
    page.press("Create superuser and login")
    page.press("New collection")
    page.fill("Name", "product")
    for name, kind in [("name", "Plain text"), ("price", "Number"), ("picture", "File")]:
        page.press("New field")
        page.press(kind)
        page.write(name)
    page.press("Create")
    page.press("New record")
    page.fill("name", "Chair") if page.run(BY_LABEL, "name") else page.write("Chair")
    page.fill("price", "12.50")
    page.press("Create")
    page.shows("Chair")
    return process


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--marmota", help="the program; left out if not given")
    parser.add_argument("--pocketbase", help="the program; left out if not given")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    port = free_port()
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
    stories = {}
    if given.marmota:
        stories["Marmota"] = (marmota, os.path.abspath(given.marmota))
    if given.pocketbase:
        stories["PocketBase"] = (pocketbase, os.path.abspath(given.pocketbase))
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        print(f"{'program':<12} {'actions':>7} {'seconds':>8}")
        for _ in range(given.rounds):
            for name, (story, program) in stories.items():
                page, process = Page(f"http://127.0.0.1:{port}"), None
                with tempfile.TemporaryDirectory() as folder:
                    begun = time.monotonic()
                    try:
                        process = story(program, page, folder)
                        seconds = time.monotonic() - begun
                        page.picture(f"first-row-{name.lower()}")
                        print(f"{name:<12} {page.actions:>7} {seconds:>8.1f}", flush=True)
                    finally:
                        page.close()
                        if process:
                            process.kill()
                            process.wait()
    finally:
        driver.terminate()


if __name__ == "__main__":
    main()
