"""``python -m engine.base.confine``: it confines itself as a converter and says what holds it."""

import json
import sys

from . import confine_process

if __name__ == "__main__":
    sys.stdout.write(json.dumps(confine_process([])._asdict()) + "\n")
