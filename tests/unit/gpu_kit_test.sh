#!/usr/bin/env bash
# Rehearses tools/gpu on the emulator. Usage: gpu_kit_test.sh ROOT BUILD. Exit 77: skipped.
set -euo pipefail
root=$1 build=$2
"$build/mkc" doctor | grep -q ': used$' || { echo "skipped: no assembler"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$root/tools/gpu/bundle" "$out" "$build"
assembler=$("$build/mkc" doctor | sed -n 's/^ *\(.*ptxas\) .*: used$/\1/p')
[ -z "$assembler" ] || "$assembler" -arch=sm_90 "$out/measure.ptx" -o "$out/measure.cubin"
cd "$out"
python3 check.py --device emulator --mkc "$build/mkc" --out result.json
python3 - <<'PY'
import json
result = json.load(open("result.json"))
states = {c["check"]: c["state"] for c in result["checks"]}
assert states["stories"] == "passed" and states["logits qwen3"] == "passed", states
assert states["fault"] == "not run on a GPU" and states["speed qwen3-8b, 1 tokens"] == "not run on a GPU", states
assert result["device"] == "emulator"
PY
# Where there is no GPU every check of it fails, and says why; none is skipped.
if ! python3 check.py --only repeats --out none.json >none.log; then grep -q "cuda: error: " none.log; fi
