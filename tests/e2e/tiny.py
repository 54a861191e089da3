"""What tests of mkc with models/tiny-stories share. Their programs take the arguments MKC ROOT."""
import os
import sys
from pathlib import Path

MKC, ROOT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(ROOT / "tests" / "unit" / "serve"))  # client.py

TINY = ROOT / "models" / "tiny-stories"
ENV = {**os.environ, "MKC_CACHE": str(MKC.parent / "tests" / "cache")}
PROMPT = "Once there was a boy named Sam."
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
