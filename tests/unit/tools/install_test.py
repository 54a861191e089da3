"""These tests build user programs against the libmkrt that cmake --install installs.
Usage: install_test.py BUILD CC
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from links import broken  # noqa: E402

BUILD, CC = sys.argv[1:3]
ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests" / "fixtures" / "models" / "llama"
TINY = ROOT / "models" / "tiny-stories"
PROGRAM = """#include <mkrt.h>
#include <stdio.h>
int main(void) { return printf("%s\\n", mkrt_version()) < 0; }
"""
GENERATE = """import sys; from mkc import mkrt
with mkrt.Device.processor() as device, device.open(*sys.argv[1:]) as session:
    print(list(session.generate([5, 17, 3], 4)))
"""
LAYOUT = """cmake_minimum_required(VERSION 3.25)
project(mkrt VERSION 0.1.0 LANGUAGES C)
include(GNUInstallDirs)
set(MKC_PYTHON_DIR lib/python3/dist-packages)
include(${ROOT}/cmake/installed_files.cmake)
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

    def test_a_program_builds_by_pkg_config_in_each_layout(self):
        """Debian's folder of libraries has two parts, and packagers may give absolute folders."""
        away = self.root / "away"
        for number, (libraries, headers, moved) in enumerate((("lib", "include", True), ("lib/x86_64-linux-gnu", "include/mkrt", True),
                                                              (away / "lib", "include", False), ("lib64", away / "include", True))):
            with self.subTest(libraries=libraries, headers=headers):
                project, prefix = self.root / f"layout{number}", self.root / f"prefix{number}"
                project.mkdir()
                (project / "CMakeLists.txt").write_text(LAYOUT)
                run("cmake", "-G", "Ninja", "-B", project / "build", "-S", project, f"-DCMAKE_C_COMPILER={CC}", f"-DROOT={ROOT}",
                    f"-DCMAKE_INSTALL_LIBDIR={libraries}", f"-DCMAKE_INSTALL_INCLUDEDIR={headers}", f"-DCMAKE_INSTALL_PREFIX={prefix}")
                if moved:
                    prefix = self.root / f"moved{number}"
                library_folder, header_folder = prefix / libraries, prefix / headers
                (library_folder / "pkgconfig").mkdir(parents=True)
                header_folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(project / "build" / "mkrt.pc", library_folder / "pkgconfig")
                shutil.copy(self.prefix / "include" / "mkrt.h", header_folder)
                for library in self.found.parent.glob("libmkrt.so*"):
                    shutil.copy(library, library_folder)
                flags = run("pkg-config", "--cflags", "--libs", "mkrt",
                            env={**os.environ, "PKG_CONFIG_PATH": str(library_folder / "pkgconfig")}).split()
                run(CC, self.root / "user.c", "-o", self.root / "user", *flags)
                self.assertIn(run(self.root / "user", env={**os.environ, "LD_LIBRARY_PATH": str(library_folder)}).strip(), self.version)
                places = {}
                exec((project / "build" / "_installed.py").read_text(), places)
                modules = prefix / "lib/python3/dist-packages/mkc/mkrt"
                modules.mkdir(parents=True)
                self.assertEqual((modules / places["LIBRARIES"]).resolve(), library_folder.resolve())
                self.assertEqual((modules / places["PROGRAMS"]).resolve(), (prefix / "bin").resolve())

    def python(self, *arguments, **environment):
        """Calls Python with the installed package, and with nothing that leads to the libraries."""
        clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "MKC_NATIVE", "MKRT_LIBRARY")}
        modules = next(self.prefix.glob("lib/python3/dist-packages"))
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=self.root,
                              env={**clean, "PYTHONPATH": str(modules), **environment})
        return done.returncode, done.stdout, done.stderr

    def test_python_finds_libraries_and_the_command(self):
        program = "from mkc import mkrt; print(mkrt.version())"
        status, found, errors = self.python("-c", program)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn(found.strip(), self.version)
        native = {"MKC_NATIVE": str(self.found.parent)}
        for environment in ({}, native):
            status, found, errors = self.python("-m", "mkc", "--version", **environment)
            self.assertEqual((status, errors, found.split()[1]), (0, "", self.version))
        status, found, errors = self.python("-m", "mkc", "--version", MKC_NATIVE="/nowhere")
        self.assertEqual((status, found), (1, ""))
        self.assertRegex(errors, r"^mkc: /nowhere/mkc: error: is missing, also in /bin; .*\n$")

    def test_python_names_a_command_that_cannot_run(self):
        folder = self.root / "not-executable"
        folder.mkdir()
        (folder / "mkc").write_text("")
        status, found, errors = self.python("-m", "mkc", "--version", MKC_NATIVE=str(folder))
        self.assertEqual((status, found, errors), (1, "", f"mkc: {folder}/mkc: error: cannot run: Permission denied\n"))

    def test_a_library_of_an_earlier_build_is_not_installed(self):
        folder = self.root / "build"
        folder.mkdir()
        library, made_of = folder / "libmkc.so", folder / "libmkc_tool.a"
        script = ("cmake", f"-Dlibrary={library}", f"-Dmade_of={made_of}", "-Dfolder=lib", f"-DCMAKE_INSTALL_PREFIX={self.root / 'late'}", "-P",
                  ROOT / "cmake" / "install_libmkc.cmake")
        made_of.touch()
        self.assertEqual(run(*script), "")
        library.touch()
        installed = self.root / "late" / "lib" / "libmkc.so"
        os.utime(library, (0, 0))
        self.assertIn("libmkc.so is older than mkc, and is not installed: its target mkc_shared makes a new one", run(*script))
        self.assertFalse(installed.exists())
        os.utime(library)
        run(*script)
        self.assertTrue(installed.exists())

    def test_python_compiles_and_generates(self):
        program = ("import sys, mkc\n"
                   "with mkc.load(sys.argv[1], device='cpu', context=64) as model:\n"
                   "    print(model.generate('Once', max_new_tokens=4).text)\n")
        library = self.found.parent / "libmkc.so"
        if library.exists():
            status, said, errors = self.python("-c", program, TINY)
            self.assertEqual(status, 0, errors)
            self.assertGreater(len(said), 1)
        # Without libmkc, whose build takes long, the error names it and its target.
        kept = library.rename(library.with_suffix(".kept")) if library.exists() else None
        try:
            status, said, errors = self.python("-c", program, TINY)
            self.assertEqual((status, said), (1, ""))
            last = errors.splitlines()[-1]
            self.assertRegex(last, r"libmkc\.so: error: is missing, .*; libmkc\.so is there once its target mkc_shared is built and installed; ")
        finally:
            if kept:
                kept.rename(library)

    def test_mkrun_and_python_run_a_shared_object_on_the_processor(self):
        artefact = self.root / "model.so"
        run(self.prefix / "bin" / "mkc", "compile", MODEL, "--target", "x86-64", "-o", artefact)
        command = [self.prefix / "bin" / "mkrun", artefact, "--checkpoint", MODEL, "--prompt-ids", "5,17,3", "--max-new-tokens", "4"]
        said = json.loads(run(*command))
        self.assertEqual((said["device"], len(said["new_ids"])), ("cpu", 4))
        status, generated, errors = self.python("-c", GENERATE, artefact, MODEL)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(json.loads(generated), said["new_ids"])
        refused = subprocess.run([*command, "--device", "0"], capture_output=True, text=True, timeout=120)
        self.assertEqual((refused.returncode, refused.stdout, refused.stderr),
                         (1, "", f"--device 0: error: is for GPUs, {artefact} is for {said['target']}\n"))

    def test_mkrun_tells_its_version(self):
        self.assertEqual(run(self.prefix / "bin" / "mkrun", "--version").split(), ["mkrun", self.version])

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
