"""These tests check how tools/gpu/kit.py starts programs and ends them. Usage: gpu_programs_test.py ROOT"""
import contextlib
import io
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(sys.argv[1])
KIT = ROOT / "tools" / "gpu"
sys.path.insert(0, str(KIT))
sys.dont_write_bytecode = True
import kit  # noqa: E402

SCRIPT = """import sys
sys.path.insert(0, {kit!r})
sys.dont_write_bytecode = True
import kit
kit.end_with_the_caller()
kit.output(["sh", "-c", {program!r}], 60)
"""


def gone(process_id, seconds=30):
    """Says whether a process ends in time. A zombie has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


class EndTest(unittest.TestCase):
    def ended_by(self, number, ignored=()):
        """Sends a script that has started a program this signal. Returns its exit status, and its program's id."""
        def ignore():
            for other in ignored:
                signal.signal(other, signal.SIG_IGN)
        with tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "mark"
            text = SCRIPT.format(kit=str(KIT), program=f"echo $$ >{mark}.part; mv {mark}.part {mark}; exec sleep 60")
            process = subprocess.Popen([sys.executable, "-c", text], preexec_fn=ignore)
            self.addCleanup(process.kill)
            until = time.monotonic() + 30
            while not mark.exists() and time.monotonic() < until:
                time.sleep(0.02)
            program = int(mark.read_text())
            process.send_signal(number)
            if number in ignored:
                time.sleep(0.3)
                return process.poll(), process, program
            return process.wait(timeout=30), process, program

    def test_a_program_ends_with_its_script(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            status, _, program = self.ended_by(number)
            self.assertEqual(status, 128 + number)
            self.assertTrue(gone(program), number)

    def test_a_program_ends_with_a_script_that_was_killed(self):
        status, _, program = self.ended_by(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)
        self.assertTrue(gone(program))

    def test_nohup_lets_a_script_go_on(self):
        status, process, program = self.ended_by(signal.SIGHUP, [signal.SIGHUP])
        self.assertIsNone(status)
        self.assertTrue(Path(f"/proc/{program}").exists())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 128 + signal.SIGTERM)
        self.assertTrue(gone(program))


class UnpackTest(unittest.TestCase):
    def folders(self, folder):
        """Returns the folder of cubins that a script has in a bundle, and the one that its program has."""
        program = "import kit; print(kit.CUBINS, (kit.CUBINS / 'a.cubin').read_text())"
        text = ("import kit, sys; print(kit.CUBINS); print(kit.output([sys.executable, '-B', '-c', " + repr(program)
                + "], 60).stdout)")
        done = subprocess.run([sys.executable, "-B", "-c", text], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        own, of_program, content = done.stdout.split()
        self.assertEqual(content, "cubin")
        self.assertEqual(own, of_program)
        return Path(own)

    def bundle(self, folder):
        shutil.copy(KIT / "kit.py", folder)
        (folder / "cubins").mkdir()
        (folder / "cubins" / "a.cubin").write_text("cubin")
        with tarfile.open(folder / "cubins.tar.gz", "w:gz") as archive:
            archive.add(folder / "cubins", "cubins")
        shutil.rmtree(folder / "cubins")

    def test_cubins_take_the_place_of_their_archive(self):
        with tempfile.TemporaryDirectory() as folder:
            self.bundle(Path(folder))
            for _ in range(2):
                self.assertEqual(self.folders(folder), Path(folder).resolve() / "cubins")
            self.assertFalse((Path(folder) / "cubins.tar.gz").exists())

    def test_a_bundle_that_cannot_be_written_is_unpacked_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            self.bundle(Path(folder))
            (Path(folder) / "cubins").write_text("no folder can be made here, not even by root")
            found = self.folders(folder)
            self.assertNotEqual(found.parent, Path(folder))
            self.assertFalse(found.exists())
            self.assertTrue((Path(folder) / "cubins.tar.gz").exists())


class KilledTest(unittest.TestCase):
    def test_a_program_that_does_not_end_is_left_with_a_note(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), unittest.mock.patch.object(kit, "UNTIL_KILLED", 0.1):
            with kit.started(["sleep", "60"]) as process:
                wait = process.wait

                def forever(timeout):
                    raise subprocess.TimeoutExpired(process.args, timeout)
                process.wait = forever
        self.assertIn(f"note: sleep (process {process.pid}) was killed and does not end", said.getvalue())
        self.assertEqual(wait(timeout=30), -signal.SIGKILL)


unittest.main(argv=sys.argv[:1])
