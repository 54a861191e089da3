"""Imports mkc from the source tree, with the native files of a build. Usage of the tests: TEST ROOT BUILD

A test goes on in the virtual environment of tools/python-env where that was made, as numpy is there.
"""
import os
import sys
import tempfile
from pathlib import Path

ROOT, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
PYTHON = BUILD / "python" / "bin" / "python"
if PYTHON.exists() and Path(sys.prefix) != PYTHON.parent.parent:
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "runtime" / "python"))
os.environ["MKC_NATIVE"] = str(BUILD)
_cache = tempfile.TemporaryDirectory()
os.environ["MKC_CACHE"] = _cache.name
CACHE = Path(_cache.name)
os.chdir(ROOT)  # doctests name models by relative paths
STORIES = ROOT / "models" / "tiny-stories"
FIXTURES = ROOT / "tests" / "fixtures" / "models"
