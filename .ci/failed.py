"""``failed.py CACHE MOST``: print the tests that pytest holds as failed in CACHE: some, and at most MOST."""

import json
import sys
from pathlib import Path

path = Path(sys.argv[1], "v", "cache", "lastfailed")
failed = sorted(json.loads(path.read_text())) if path.exists() else []
if not failed:
    sys.exit("pytest failed, but named no test")
if len(failed) > int(sys.argv[2]):
    sys.exit(f"{len(failed)} tests failed: too many for the machine to be the cause")
print(*failed, sep="\n")
