"""What a server holds: requests, pages, file descriptors, threads and memory. Kills its device's process."""
import os
import signal
from pathlib import Path

SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP]


def status_of(process):
    """Returns the fields of a process' status, or none where it has ended."""
    try:
        text = (Path("/proc") / str(process) / "status").read_text()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def children_of(process):
    """Returns the processes that a process has started, of all its threads."""
    found = []
    for thread in (Path("/proc") / str(process) / "task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def held_by(process):
    """Returns the file descriptors, the threads and the resident memory of a process, or None where it has ended."""
    status = status_of(process)
    if "VmRSS" not in status:
        return None
    descriptors = len(os.listdir(f"/proc/{process}/fd"))
    return {"descriptors": descriptors, "threads": int(status["Threads"]), "kb": int(status["VmRSS"].split()[0])}


def held_of(server):
    """Returns the file descriptors and threads of a server and of its device's process."""
    held = {}
    for name, process in (("server", server.process.pid), *(("device", p) for p in children_of(server.process.pid))):
        if (facts := held_by(process)) is None:  # an idle server does not look at its device's process
            continue
        held.update({f"{name}'s descriptors": facts["descriptors"], f"{name}'s threads": facts["threads"]})
    return held


def metrics_of(server):
    """Returns the gauges and counters of /metrics that stand alone."""
    found = {}
    for line in server.get("/metrics")[1].splitlines():
        if not line.startswith("#") and "le=" not in line:
            name, value = line.rsplit(" ", 1)
            found[name.split("{")[0]] = float(value)
    return found


def is_quiet(server):
    """Tells whether a server has nothing under way: no request and no page in use."""
    status, health = server.get("/health")
    metrics = metrics_of(server)
    return (status == 200 and health["requests"] == 0 and metrics["mkc_num_requests_running"] == 0 and
            metrics["mkc_num_requests_waiting"] == 0 and metrics["mkc_kv_cache_usage_perc"] == 0)


def strike(server, number):
    """Sends a signal to the process of the device, if there is one."""
    for process in children_of(server.process.pid):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return False
        return True
    return False
