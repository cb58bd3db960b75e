"""Our accuracy_analysis and hybrid_quantization_step1, timed by the shared benchmark's own script.

PYTHONPATH=SHARED/bench python -B benchmarks/quantization/steps.py --model rfb320 \
    --step accuracy_analysis --work DIR --repeat 3

`vendor_steps.py` there drives rknn-toolkit2 through `rknn.api`; here that name is our class, so
both are called and timed in the same way. Steps: accuracy_analysis, hybrid, hybrid_proposal.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main() -> None:
    """Put our class where the script looks for the vendor's, and run the script."""
    from engine.api import RKNN

    package, module = ModuleType("rknn"), ModuleType("rknn.api")
    module.RKNN = RKNN  # type: ignore[attr-defined]
    package.api = module  # type: ignore[attr-defined]
    sys.modules |= {"rknn": package, "rknn.api": module}
    import vendor_steps  # type: ignore[import-not-found]

    vendor_steps.main()


if __name__ == "__main__":
    main()
