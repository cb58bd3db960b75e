"""Print the ten files of tests that took longest, and the sum of pytest's reports as the last line:
'N passed, N failed, N skipped'.

Usage: counts.py REPORT.xml...   Exit code 1 without any test or with a failed one.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree  # pytest's own reports
from collections import Counter
from pathlib import Path


def main(paths: list[str]) -> int:
    """Sum up the reports that exist."""
    total = failed = skipped = 0
    seconds: Counter[str] = Counter()
    for path in filter(Path.exists, map(Path, paths)):
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):  # noqa: S314
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
            for case in suite.iter("testcase"):
                seconds[case.get("classname", "")] += float(case.get("time", 0))
    for name, sum_ in seconds.most_common(10):
        print(f"{sum_:7.0f} s  {name}")
    print(f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
