"""Installs kafkajs for tests/compat, where npm is there; without it, or without a network, those tests are skipped.

Set-up calls this, so it never fails: it says in one line what is missing and why that is no harm.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tests" / "compat" / "kafkajs"
SECONDS = 120


def main() -> None:
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not installed: the tests with kafkajs will be skipped.")
        return
    command = [npm, "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    try:
        subprocess.run(command, check=True, timeout=SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"kafkajs could not be installed ({error}): its tests will be skipped.")


if __name__ == "__main__":
    main()
