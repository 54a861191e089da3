#!/usr/bin/env bash
# Rehearses tools/gpu on the emulator. Usage: gpu_kit_test.sh ROOT BUILD. Exit 77: skipped.
set -euo pipefail
root=$(realpath "$1") build=$(realpath "$2")
export MKC_CACHE=$build/tests/cache
timeout 120 "$build/mkc" doctor | grep -q ': used$' || { echo "skipped: no assembler"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# spills_test compiles the other shapes.
shapes=llama-3.2-1b,qwen3-30b-a3b
assembler=$(timeout 120 "$build/mkc" doctor | sed -n 's/^ *\(.*ptxas\) .*: used$/\1/p')
# What is asked of registers or instructions goes through the whole assembler. For other cubins, an assembler that
# does not optimise takes half as long or less.
kit=$build
if [ -n "$assembler" ]; then
  kit=$build/tests/kit
  mkdir -p "$kit"
  for file in mkrun libmkrt.so; do ln -sf "$build/$file" "$kit/$file"; done
  printf '#!/bin/bash\nexec %q "${@/#-O3/-O0}"\n' "$assembler" >"$kit/ptxas"
  cat >"$kit/mkc" <<SH
#!/bin/bash
case "\$*" in
  *tools/bench/configs/*|*/cubins/tiny-stories.cubin*) ;;
  *) export MKC_ASSEMBLER=$(printf %q "$kit/ptxas") ;;
esac
exec $(printf %q "$build/mkc") "\$@"
SH
  chmod +x "$kit/ptxas" "$kit/mkc"
fi
"$root/tools/gpu/bundle" "$out" "$kit" --shapes $shapes
[ "$(du -sb "$out" | cut -f 1)" -lt 20000000 ] || { echo "the bundle is larger than 20 MB"; exit 1; }
[ -z "$assembler" ] || [ -f "$out/measure.cubin" ] || { echo "the measuring kernels are not assembled"; exit 1; }
newest=$(objdump -T "$out/mkrun" "$out/libmkrt.so" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
[[ $(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1) == GLIBC_2.34 ]] || { echo "needs $newest"; exit 1; }
cd "$out"
# What is wrong with a product is found: activations that are no codes.
if python3 -c 'import numpy' 2>/dev/null; then
  python3 bodies.py shapes/body-wide-fp8 --tokens 80 -- "$build/mkc" run {checkpoint} --family bodies.yaml --device emulator --json \
    --prompt-ids {prompt} --logits-out {logits} --max-tokens 256 --no-batch-invariant --activations bf16 2>bf16.log && exit 1
  grep -q "bodies: error: normed: rows 0" bf16.log || { cat bf16.log; exit 1; }
fi
python3 - $shapes <<'PY'
import json, sys
for name in (shape + mode for shape in sys.argv[1].split(",") for mode in ("", "-kernels")):
    assert json.load(open(f"compiled/{name}.json"))["spill_bytes"] == 0, f"{name} spills"
PY
export PATH=$build/assembler/bin:$PATH
python3 check.py --device emulator --mkc "$build/mkc" --out emulated
cp -r emulated again
python3 check.py --device emulator --mkc "$build/mkc" --out again --go-on --only stories >again.log
if grep passed again.log; then echo "what had passed ran again"; exit 1; fi
python3 - <<'PY'
import json
result = json.load(open("emulated/gpu-check.json"))
states = {c["check"]: c["state"] for c in result["checks"]}
assert states["stories"] == "passed" and states["logits qwen3"] == "passed", states
assert states["layers qwen3"] == "not run on a GPU", states
(told,) = [c["parts_from"] for c in result["checks"] if c["check"] == "stories"]
assert told["the emulator's"] == [None], told  # it is the emulator
again = json.load(open("again/gpu-check.json"))["checks"]
assert [c for c in again if c["state"] == "passed"] == [c for c in result["checks"] if c["state"] == "passed"], again
assert states["fault"] == "not run on a GPU" and states["speed llama-3.2-1b"] == "not run on a GPU", states
assert states["trace llama"] == "passed", result
for name in ("gptq", "gpt_oss_mxfp4", "mixtral", "llama_f32", "llama-f16", "ct_w8_rows-e4m3"):
    assert states[f"logits {name}"] == "passed", result
for name in ("gated", "wide", "wide-fp8"):
    assert states[f"body {name}"] == "passed" or "numpy is not installed" in str(result), result
assert json.load(open("emulated/gpu-trace-llama.json"))["unit"] == "stamps"
assert result["device"] == "emulator" and result["rehearsal"] is True
PY

# bench.py, all but the models' sizes as on a GPU: mkrun and the measurements use a driver that keeps memory on the host.
clang-22 -shared -fPIC "$root/tests/fixtures/fake_cuda/libcuda.c" -o libcuda.so.1
torch=$(python3 -c 'import torch, transformers, safetensors; print(torch.__version__)' 2>/dev/null) ||
  echo "SKIP peers: torch, transformers and safetensors are not installed"
bench() {
  LD_LIBRARY_PATH=$out python3 bench.py --device emulator --shapes models --models qwen3,llama --contexts 32,96,200 \
    --steps 4 --out timed "$@"
}
bench --only mkc --batches 1,2,4,8,16,32,64 >bench.log || { cat bench.log; exit 1; }
cp cubins/llama.cubin cubins/llama-prompt.cubin
bench --only prompt >bench.log || { cat bench.log; exit 1; }
bench --only trace >bench.log || { cat bench.log; exit 1; }
[ -z "$torch" ] || bench --peers eager,transformers --batches 1,4 >peers.log || { cat peers.log; exit 1; }
bench --only mkc >again.log || { cat again.log; exit 1; }
python3 - <<'PY'
import json
result = json.load(open("timed/gpu-bench.json"))
assert result["device"] == "rehearsal" and result["machine"]["sms"] == 4, result
rows = result["parts"]["mkc qwen3"]["rows"]
timed = [(r["batch"], r["tokens"], r["context"]) for r in rows if "us" in r]
assert timed[:4] == [(1, t, c) for t in (1, 16) for c in (32, 96)], rows
assert timed[4:] == [(b, 1, c) for b in (2, 4, 8, 16) for c in (32, 96)], rows
assert {"context": 200, "state": "not supported by this artefact"} in rows, rows
assert {"batch": 64, "state": "not supported by this artefact"} in rows, rows
rows = result["parts"]["mkc prompt llama"]["rows"]
assert [(r["batch"], r["tokens"], r["context"]) for r in rows] == [(1, 64, 128)], rows
rows = result["parts"]["mkc launches llama"]["rows"]
assert {(r["steps_per_launch"], r["tokens"]) for r in rows if "us" in r} == {(8, 1)}, rows
*_, said = result["parts"]["trace llama"]["rows"]  # its kernel does nothing
assert said == {"file": "gpu-trace-llama.json", "stamps": 0, "lost": 0, "ns": 0}, said
PY

# The C interface's examples, on that driver.
python3 "$root/tests/unit/runtime/c_abi_test.py" "$build/libmkrt.so" "$root" clang-22 "$build/mkc" cubins/tiny-stories.cubin models/tiny-stories

# Sessions on streams and by a graph, on that driver.
FAKE_CUDA_SAMPLES=1 LD_LIBRARY_PATH=$out python3 sessions.py cubins/tiny-stories.cubin models/tiny-stories 5,9,3,3,7 streams,graph >streams.log
[[ $(wc -l <streams.log) == 2 ]]

if [ -n "$torch" ]; then  # kernels that do nothing leave even the embedding at 0
  LD_LIBRARY_PATH=$out python3 layers.py cubins/qwen3_moe-kept.cubin models/qwen3_moe --device cpu 2>layers.log && exit 1
  grep -q "^layers: error: grid embed is the first to be wrong, in x: rows \[0, [0-9, ]*\] of 40 have relative errors up to 1.000e+00" layers.log || { cat layers.log; exit 1; }
fi

# check.py against that driver, whose kernels compute nothing: what looks at results must say that they are wrong.
for check in loads sessions samples repeats fault limits "body wide-fp8"; do
  FAKE_CUDA_SAMPLES=1 LD_LIBRARY_PATH=$out python3 check.py --only "$check" --repeats 50 --out "fake $check" >>fake.log || :
done
python3 - <<'PY'
import json
for name, state, words in (("loads", "failed", "64 registers and 0 bytes of local memory, compiled with "),
                           ("samples", "failed", "differ; the first, 0 by parameters 0: found 1, expected 0"),
                           ("sessions", "failed", "sessions: error: "), ("repeats", "passed", ""),
                           ("body wide-fp8", "failed", "bodies: error: normed: rows 0-"),
                           ("fault", "failed", "exit 0, expected 1"), ("limits", "passed", "")):
    (check,) = json.load(open(f"fake {name}/gpu-check.json"))["checks"]
    if check["state"] == "skipped":
        print("SKIP", name + ":", check["why"])
    else:
        assert check["state"] == state and words in check.get("why", ""), check
PY
# Where there is no driver no check begins, and the reason is said.
if ! python3 check.py --only repeats --out none >none.log; then grep -q "check: error: no driver: " none.log; fi
