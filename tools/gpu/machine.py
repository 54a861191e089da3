"""Says what machine a script of this kit runs on, and what of it may spoil checks and times.

A note names what was found and what was expected. A script stops at once only where no program could use the GPU, or
the cubins are for another one.
"""
import datetime
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from kit import CUBINS, HERE, SOFTWARE, Failed, manifest, output

GIB = 1 << 30
CHECKPOINT_BYTES = 20 * GIB  # of the largest checkpoint that a check writes to the folder of temporary files
ABI_VERSION = 8  # place of a cubin's version in its header
MAJOR_OF_ABI = {7: 12, 8: 13}  # CUDA release that made a cubin of sm_90 -> the oldest driver that surely takes it
STATE = ["driver_version", "persistence_mode", "compute_mode", "mig.mode.current", "ecc.mode.current", "clocks.sm",
         "clocks.max.sm", "clocks.mem", "clocks.max.mem", "power.limit", "power.default_limit", "temperature.gpu",
         "utilization.gpu", "memory.used"]
PROHIBITED, EXCLUSIVE = 2, 3  # values of CUcomputemode
SLOW_CLOCK = 0.75  # of the largest clock
OTHER_BUNDLE = "a bundle made with an assembler of CUDA 12.8 or 12.9 (docs/gpu.md)"
CAUSES = {  # of the driver's answers to cuInit whose name does not say it
    "NO_DEVICE": "expected a GPU in nvidia-smi -L that CUDA_VISIBLE_DEVICES names, and instances where MIG mode is on",
    "STUB_LIBRARY": "libcuda.so.1 is the toolkit's stub, expected the driver's own before it in LD_LIBRARY_PATH",
    "SYSTEM_NOT_READY": "expected nvidia-fabricmanager to run, on a machine with NVSwitch",
    "SYSTEM_DRIVER_MISMATCH": "libcuda.so.1 and the kernel module are of different versions, expected equal ones",
    "COMPAT_NOT_SUPPORTED_ON_DEVICE": "expected the driver's own libcuda.so.1, not one for compatibility",
    "DEVICE_UNAVAILABLE": "another process has the GPU for itself, expected compute mode default (nvidia-smi -c 0)",
    "ERROR_UNKNOWN": "often /dev/nvidia-uvm is missing, which nvidia-modprobe -u -c=0 makes",
}


def ask():
    """Returns what the driver says about the GPU, and why it says nothing: one of both is None."""
    try:
        done = output([sys.executable, HERE / "driver.py"], 60)
    except (OSError, Failed) as e:
        return None, str(e)
    if done.returncode == 0:
        return json.loads(done.stdout), None
    said = done.stderr.strip().splitlines()[-1:] or [f"driver.py gave exit {done.returncode}"]
    why = re.sub(r"^[\w.]*Error: ", "", said[0])  # the last line of a traceback
    return None, why + "".join(f": {cause}" for word, cause in CAUSES.items() if word in why)


def state(bus_id, fields=STATE):
    """Returns what nvidia-smi says of one GPU, by field; {} where it is not installed or does not know the GPU."""
    try:
        done = output(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits", "-i", bus_id], 30)
    except (OSError, Failed):
        return {}
    if done.returncode != 0:  # an older one may not know a field
        return state(bus_id, STATE[:1]) if len(fields) > 1 else {}
    return dict(zip(fields, (value.strip() for value in done.stdout.strip().split(","))))


def number(text):
    """A field of nvidia-smi as a number, or None where it says none."""
    found = re.fullmatch(r"[0-9.]+", text or "")
    return float(found[0]) if found else None


def cuda(version):
    """The version of CUDA that a driver supports, as text."""
    return f"{version // 1000}.{version % 1000 // 10}"


def notes_on_cubins(about, says, abi):
    """Notes on the GPU and the cubins, by the manifest and the ELF version of one."""
    needs = 1000 * MAJOR_OF_ABI.get(abi, 12)
    if about["driver_api"] < needs:
        yield (f"the driver supports CUDA {cuda(about['driver_api'])}, and the cubins were "
               f"assembled by CUDA {needs // 1000}: expected a driver of {needs // 1000}.0 or newer, or {OTHER_BUNDLE}")
    if says.get("workers", 0) > about["sms"]:
        kind = "MIG slice" if " MIG " in about["name"] else "GPU"
        yield (f"the {kind} has {about['sms']} SMs, and the cubins have {says['workers']} workers: expected as many SMs, or a "
               "bundle made with --machine for this one")


def notes_on_gpu(about, said):
    """Notes on the GPU by the driver, and by what nvidia-smi said."""
    used = about["memory_bytes"] - about["free_bytes"]
    if used > max(2 * GIB, about["memory_bytes"] // 10):
        yield (f"{about['free_bytes'] >> 20} MB of {about['memory_bytes'] >> 20} MB are free, expected nearly all: other "
               "processes hold memory and may take time, too")
    if about["compute_mode"] == EXCLUSIVE:
        yield "compute mode is exclusive process, expected default (nvidia-smi -c 0): checks with two processes are skipped"
    if not said:
        yield "nvidia-smi is not installed, or does not know this GPU: clocks, power and persistence mode are not kept"
    if said.get("persistence_mode") == "Disabled":
        yield "persistence mode is off, expected on (nvidia-smi -pm 1): every program may start the GPU anew"
    if said.get("ecc.mode.current") == "Disabled":
        yield "ECC is off, expected on: a flipped bit may look like a wrong kernel"
    if (number(said.get("utilization.gpu")) or 0) > 5:
        yield f"the GPU is busy for {said['utilization.gpu']}% of the time, expected 0: another process runs on it"
    limit, usual = number(said.get("power.limit")), number(said.get("power.default_limit"))
    if limit and usual and limit < 0.95 * usual:
        yield f"the power limit is {limit:.0f} W, expected {usual:.0f}: long steps are slower"


def note_on_clock(mhz, of):
    """A note where the clock that was measured is far from the largest, or None."""
    if not mhz or not of or mhz >= SLOW_CLOCK * of:
        return None
    return (f"the clock is {mhz:.0f} MHz, expected near {of:.0f}: clocks are locked or throttled, and times are of that clock "
            "(nvidia-smi -q -d CLOCK,PERFORMANCE)")


def cubin_facts(folder):
    """Manifest and ELF version of the cubin that most checks use; {} and None where there is none."""
    cubin = folder / "tiny-stories.cubin"
    return (manifest(cubin), cubin.read_bytes()[ABI_VERSION]) if cubin.exists() else ({}, None)


def unusable(about, why, says):
    """Why no check could say anything here, or None."""
    if about is None:
        return why
    capability = f"sm_{about['major']}{about['minor']}"
    target = says.get("target", capability)
    if target.rstrip("a") != capability:
        return f"{about['name']} is {capability}, and the cubins are for {target}: expected a GPU of that architecture"
    if about["compute_mode"] == PROHIBITED:
        return f"compute mode of {about['name']} is prohibited, expected default (nvidia-smi -c 0)"
    return None


def circumstances():
    """Where and of what: the device's name and state by its driver and nvidia-smi; the bundle's commit; the date; notes.

    A software GPU (docs/softgpu.md) names itself, and its results are a rehearsal. unusable says why a script cannot go on.
    """
    about, why = ask()
    says, abi = cubin_facts(CUBINS)
    said = state(about["bus_id"]) if about else {}
    commit = HERE / "commit"
    found = {"date": datetime.date.today().isoformat(), "device": about["name"] if about else None,
             "driver": said.get("driver_version"), "driver_api": about["driver_api"] if about else None,
             "commit": commit.read_text().strip() if commit.exists() else None, "state": said}
    if stop := unusable(about, why, says):
        return {**found, "unusable": stop, "notes": []}
    found["notes"] = [*notes_on_cubins(about, says, abi), *notes_on_gpu(about, said)]
    found["compute_mode"] = about["compute_mode"]
    room = shutil.disk_usage(tempfile.gettempdir()).free
    if room < CHECKPOINT_BYTES:
        found["notes"].append(f"{tempfile.gettempdir()} has {room / 1e9:.0f} GB free, expected {CHECKPOINT_BYTES / 1e9:.0f}: the "
                              "reference of the largest shape fails (TMPDIR names another folder)")
    return {**found, "rehearsal": True} if about["name"].startswith(SOFTWARE) else found


def introduce(found, plan):
    """Prints where a script runs and what it will take, before it begins."""
    print(f"GPU {found['device']}, driver {found['driver'] or found['driver_api']}, bundle of {found['commit']}")
    for note in found.get("notes", []):
        print(f"note: {note}")
    print(plan, flush=True)
