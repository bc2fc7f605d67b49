"""The page of the documentation with today's scripts around the models it holds.

    python -m tests.explorer.renew docs/explorer.html

Nothing is trained: the data and the weights are read from the page itself.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from internalize.explorer.bundle import Bundle
from internalize.explorer.page import explorer_page

BLOCK = re.compile(r'^<script type="(application/json|text/plain)" id="([^"]+)">(.*)</script>$', re.MULTILINE)


def renewed(page: str) -> str:
    """The same bundle in today's frame."""
    found = {name: content for _, name, content in BLOCK.findall(page)}
    return explorer_page(Bundle(json.loads(found.pop("data")), found))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
