"""Every benchmark gives these circumstances beside its figures."""
import datetime
import functools
import json
import os
import platform
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MKC = ROOT / "build" / "mkc"


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


@functools.cache
def circumstances():
    """Those of the first call: a long run may outlive a commit."""
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {"date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(), "processor": processor(),
            "threads": os.cpu_count()}


def spread(values):
    """Median, least and greatest."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values), "runs": len(values)}


def shown(values, unit, digits=1):
    s = spread(values)
    return f"{s['median']:.{digits}f} {unit} ({s['least']:.{digits}f} to {s['greatest']:.{digits}f}, {s['runs']} runs)"


def finish(name, result, keep):
    result = {"benchmark": name, **circumstances(), **result}
    if keep:
        folder = ROOT / "tools" / "bench" / "results"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}-{result['date']}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"kept in {path.relative_to(ROOT)}")
