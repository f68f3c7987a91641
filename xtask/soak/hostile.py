#!/usr/bin/env python3
"""Network abuse by crates/http/examples/hostile: memory is released after each, and
normal clients are served in the meantime.
"""

import argparse
import re
import subprocess
import sys

# The scenario, clients, seconds, and the limits: MB under abuse, and MB more than at
# the start when the clients have gone.
ABUSES = [
    ("slow-heads", 10_000, 10, 150, 20),
    ("slow-readers", 5_000, 10, 400, 20),
    ("connections", 3_000, 5, 300, 20),
    ("websockets", 5_000, 5, 250, 60),
    ("resets", 8, 10, 100, 20),
    ("continuations", 8, 10, 100, 20),
    ("pings", 8, 10, 100, 20),
    ("priorities", 8, 10, 100, 20),
    ("windows", 8, 10, 100, 20),
    ("bodies", 50, 10, 700, 60),
    ("answers", 50, 10, 700, 60),
    ("unread", 5_000, 10, 700, 60),
]
# The minimum share of the normal load that must be served under abuse.
LEFT_PERCENT_MIN = 5


def run(program, what, clients, seconds, peak_max, more_max):
    """Executes a scenario. Returns the faults."""
    done = subprocess.run(
        [program, what, str(clients), str(seconds)], capture_output=True, text=True, timeout=seconds * 4 + 180
    )
    text = done.stdout + done.stderr
    resident = [int(kib) / 1024 for kib in re.findall(r"(\d+) KiB", text)]
    if done.returncode != 0 or len(resident) < 2:
        return [f"{what}: ended with {done.returncode}: {text.strip()[-400:]}"]
    start, peak, end = resident[0], max(resident), resident[-1]
    left = re.search(r"beside: .*?, (\d+) %", text)
    share = f", {left[1]} % of the normal load left" if left else ""
    print(f"{what} {clients}: {start:.0f} / {peak:.0f} / {end:.0f} MB{share}", flush=True)
    faults = []
    if peak > peak_max:
        faults.append(f"{what}: {peak:.0f} MB, at most {peak_max} are allowed")
    if end > start + more_max:
        faults.append(f"{what}: {end:.0f} MB afterwards, {start:.0f} at the start")
    if left and int(left[1]) < LEFT_PERCENT_MIN:
        faults.append(f"{what}: {left[1]} % of the normal load were left")
    rate = re.search(r"beside: (\d+) requests", text)
    if rate and int(rate[1]) == 0:
        faults.append(f"{what}: the normal load was not served")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="path of the example hostile")
    parser.add_argument("--only", help="prefix of the scenarios' names", default="")
    given = parser.parse_args()
    faults = []
    for abuse in ABUSES:
        if abuse[0].startswith(given.only):
            faults += run(given.program, *abuse)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
