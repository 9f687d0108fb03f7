from __future__ import annotations

import sys

from tools.pictures.terminal import main

main(sys.argv[1:])
