#!/usr/bin/env bash
# Puts the task files of MiniWoB++ (PyPI package miniwob 1.1.0, MIT License) into the cache, for `--env miniwob`. Needs Python with pip.
set -euo pipefail
cache=${FLYWHEEL_CACHE:-$HOME/.cache/flywheel}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --dest "$work" miniwob==1.1.0
wheel=$work/miniwob-1.1.0-py3-none-any.whl
echo "297006e84219d56ad037e843527ed773a4a82509dc43b6031ec4a3ad3e3e61d9  $wheel" | sha256sum --check --quiet
python3 - "$wheel" "$work/files" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("miniwob/html/") or "/licenses/" in name])
PYTHON
mkdir -p "$cache"
rm -rf "$cache/miniwob"
mv "$work/files/miniwob" "$cache/miniwob"
mv "$work"/files/miniwob-1.1.0.dist-info/licenses/LICENSE "$cache/miniwob/LICENSE"
echo "MiniWoB++ is in $cache/miniwob"
