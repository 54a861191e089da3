"""These tests build user programs against the libmkrt that cmake --install installs.
Usage: install_test.py BUILD CC
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from links import broken  # noqa: E402

BUILD, CC = sys.argv[1:3]
MODEL = Path(__file__).resolve().parents[2] / "fixtures" / "models" / "llama"
PROGRAM = """#include <mkrt.h>
#include <stdio.h>
int main(void) { return printf("%s\\n", mkrt_version()) < 0; }
"""
GENERATE = """import sys; from mkc import mkrt
with mkrt.Device.processor() as device, device.open(*sys.argv[1:]) as session:
    print(list(session.generate([5, 17, 3], 4)))
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(mkrt 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE mkrt::mkrt)
"""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.prefix = cls.root / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        (cls.root / "user.c").write_text(PROGRAM)
        cls.version = run(cls.prefix / "bin" / "mkc", "--version").split()[1]
        cls.found = next(cls.prefix.glob("lib*/**/pkgconfig"))
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.found.parent)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_program_builds_by_pkg_config(self):
        flags = run("pkg-config", "--cflags", "--libs", "mkrt", env={**os.environ, "PKG_CONFIG_PATH": str(self.found)}).split()
        run(CC, self.root / "user.c", "-o", self.root / "user", *flags)
        self.assertIn(run(self.root / "user", env=self.environment).strip(), self.version)

    def test_a_program_builds_by_find_package(self):
        project = self.root / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        (project / "user.c").write_text(PROGRAM)
        run("cmake", "-G", "Ninja", "-B", project / "build", "-S", project, f"-DCMAKE_C_COMPILER={CC}",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        self.assertIn(run(project / "build" / "user").strip(), self.version)

    def test_python_finds_the_library(self):
        modules = next(self.prefix.glob("lib/python3/dist-packages"))
        program = "from mkc import mkrt; print(mkrt._load(None).mkrt_version().decode())"
        found = run(sys.executable, "-c", program, env={**self.environment, "PYTHONPATH": str(modules)})
        self.assertIn(found.strip(), self.version)

    def test_mkrun_and_python_run_a_shared_object_on_the_processor(self):
        artefact = self.root / "model.so"
        run(self.prefix / "bin" / "mkc", "compile", MODEL, "--target", "x86-64", "-o", artefact)
        command = [self.prefix / "bin" / "mkrun", artefact, "--checkpoint", MODEL, "--prompt-ids", "5,17,3", "--max-new-tokens", "4"]
        said = json.loads(run(*command))
        self.assertEqual((said["device"], len(said["new_ids"])), ("cpu", 4))
        modules = next(self.prefix.glob("lib/python3/dist-packages"))
        generated = run(sys.executable, "-c", GENERATE, artefact, MODEL, env={**self.environment, "PYTHONPATH": str(modules)})
        self.assertEqual(json.loads(generated), said["new_ids"])
        refused = subprocess.run([*command, "--device", "0"], capture_output=True, text=True, timeout=120)
        self.assertEqual((refused.returncode, refused.stdout, refused.stderr),
                         (1, "", f"--device 0: error: is for GPUs, {artefact} is for {said['target']}\n"))

    def test_families_are_there(self):
        self.assertTrue((self.prefix / "share" / "mkc" / "models" / "llama.yaml").is_file())

    def test_manual_pages_and_completions_are_there(self):
        for program in ("mkc", "mkrun"):
            for path in (f"man/man1/{program}.1", f"bash-completion/completions/{program}", f"zsh/site-functions/_{program}",
                         f"fish/vendor_completions.d/{program}.fish"):
                self.assertIn(program, (self.prefix / "share" / path).read_text(encoding="utf-8"), path)

    def test_links_and_pictures_of_installed_pages_are_there(self):
        docs = self.prefix / "share" / "doc" / "mkc"
        self.assertTrue((docs / "docs" / "timeline.svg").is_file())
        self.assertGreater(len(list(docs.rglob("*.md"))), 50)
        self.assertEqual(broken(sorted(docs.rglob("*.md")), docs), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
