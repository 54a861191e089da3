"""The scripts of this kit share results that survive whatever comes next, and programs that end in time."""
import atexit
import contextlib
import ctypes
import importlib.util
import json
import os
import re
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNPACKED = "MKC_KIT_CUBINS"  # names the folder of cubins, for programs of a script
SOFTWARE = "software GPU"  # how the name of a software GPU begins
IMAGES = ("measure.cubin", "measure.ptx")  # the kernels that measure; a bundle has one of them
TRACE = "gpu-trace-{}.json"  # of a model, in the folder of results
UNTIL_KILLED = 10  # seconds after SIGKILL
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def unpacked(packed):
    """Returns the folder of the cubins. They travel in one archive, whose place they take; cut off, it is done again.

    Where the archive's folder cannot be written, a temporary one has them until this program ends. Programs that it starts
    use that one.
    """
    if UNPACKED in os.environ:
        return Path(os.environ[UNPACKED])
    if packed.exists():
        try:
            extract(packed, packed.parent)
            packed.unlink()
        except OSError:
            folder = tempfile.mkdtemp(prefix="mkc-cubins-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            extract(packed, folder)
            os.environ[UNPACKED] = f"{folder}/cubins"
            return Path(folder) / "cubins"
    return packed.parent / "cubins"


def extract(packed, folder):
    with tarfile.open(packed) as archive:
        archive.extractall(folder)


CUBINS = unpacked(HERE / "cubins.tar.gz")
with contextlib.suppress(OSError):
    (HERE / "mkrun").chmod(0o755)  # a way that brings files alone loses it


def measuring_image():
    return next((HERE / name for name in IMAGES if (HERE / name).exists()), HERE / IMAGES[-1])


class Failed(Exception):
    pass


class Missing(Exception):
    """Something that is not installed here."""


def need(*packages):
    for package in packages:
        if not importlib.util.find_spec(package):
            raise Missing(f"Python's {package} is not installed")


def spread(samples):
    """Median and quartiles."""
    ordered = sorted(samples)
    first, median, third = statistics.quantiles(ordered if len(ordered) > 1 else 2 * ordered, n=4, method="inclusive")
    return {"median": median, "quartile_1": first, "quartile_3": third, "least": ordered[0], "samples": len(ordered)}


def manifest(cubin):
    """Returns a cubin's manifest, which lies in it as text."""
    data = Path(cubin).read_bytes()
    begin = data.find(b'{"abi":')
    if begin < 0:
        raise Failed(f"{cubin} holds no manifest")
    return json.JSONDecoder().raw_decode(data[begin:].decode(errors="replace"))[0]  # other data may follow at once


def kernels(cubin):
    """Names of its kernels: one, or one for each kind of grid."""
    if not manifest(cubin)["launches"]:
        return ["mk_kernel"]
    return sorted({name.decode() for name in re.findall(rb"\.text\.(mk_grid_\d+)\0", Path(cubin).read_bytes())})


def position_bytes(says):
    """Returns the bytes of keys and values of one position of a request, by a manifest."""
    sizes = {"f32": 4, "f16": 2, "bf16": 2, "e4m3": 1}
    return sum(cache["heads"] * cache["head_dim"] * sizes[cache["element"]] for cache in says["caches"])


def symbols(cubin):
    """Name of each size that a step sets -> its upper bound. Batches have B."""
    return {s["name"]: s["hi"] for s in manifest(cubin)["symbols"]}


def traced(path):
    """Returns the stamps of a trace, those lost, and when the last was made. Failed where a track goes back in time."""
    said = json.loads(Path(path).read_text())
    times = [track["stamps"][::5] for track in said["tracks"]]
    for number, track in enumerate(times):
        if track != sorted(track):
            raise Failed(f"track {number} of {path} goes back in time")
    return {"file": Path(path).name, "stamps": sum(map(len, times)), "lost": sum(track["lost"] for track in said["tracks"]),
            said["unit"]: max(map(max, filter(None, times)), default=0)}


def write(path, result):
    """All or nothing: a run that is cut off leaves what it had."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(partial, path)


def end_with_the_caller():
    """SIGTERM, SIGINT and SIGHUP end this program as an exception does, so that the programs that it started end, too.
    Those that are ignored, as SIGHUP by nohup, stay so."""
    endings = [number for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
               if signal.getsignal(number) is not signal.SIG_IGN]

    def end(number, _):
        for other in endings:  # a second one would interrupt the end
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in endings:
        signal.signal(number, end)


def die_with_the_caller():
    """Has this process killed when the one that started it ends in whatever way; for preexec_fn."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


@contextlib.contextmanager
def started(command, **options):
    """A program in a process group of its own. Behind the block the group is killed: whatever it started ends with it."""
    process = subprocess.Popen([str(c) for c in command], start_new_session=True, preexec_fn=die_with_the_caller, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout=UNTIL_KILLED)
        except subprocess.TimeoutExpired:  # it waits inside the driver
            print(f"note: {process.args[0]} (process {process.pid}) was killed and does not end: expected its end within "
                  f"{UNTIL_KILLED} s", flush=True)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()


def result_of(process, seconds):
    """Exit status and output of a program that was started with pipes for text. Failed, with what it said last, where it
    lasts longer."""
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as e:
        said = (e.stderr or b"").decode(errors="replace").strip()
        raise Failed(f"stopped after {seconds:.0f} s{': ' if said else ''}{said[-800:]}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def output(command, seconds):
    """Exit status and output of a program, as of result_of."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        return result_of(process, seconds)


def lines(command, seconds):
    """Runs a program that prints one JSON object a line and yields each as it comes. Failed, with what it said last,
    where it fails or lasts longer."""
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as errors:
        with started(command, stdout=subprocess.PIPE, stderr=errors) as process:
            yield from _until(process.stdout, deadline, seconds)
            try:
                process.wait(max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failed(f"stopped after {seconds:.0f} s") from None
        if process.returncode != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            raise Failed(f"exit {process.returncode}: {said[-800:]}")


def _until(pipe, deadline, seconds):
    """The objects that come through a pipe, until it is closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        rest, more = b"", True
        while more:
            if not selector.select(max(0, deadline - time.monotonic())):
                raise Failed(f"stopped after {seconds:.0f} s")
            got = os.read(pipe.fileno(), 1 << 20)
            more, (*whole, rest) = bool(got), (rest + got).split(b"\n")
            yield from (json.loads(line) for line in whole if line.startswith(b"{"))
