"""``make bench``: every figure in turn. ``--full`` adds the largest published cluster.

With ``--sizes`` those of docs/deploy.md instead: what is needed at which size.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the parts; each prints its figures as it has them."""
    if "--sizes" in sys.argv:
        import_module("tests.bench.sizes").main([a for a in sys.argv[1:] if a != "--sizes"])
        return
    import_module("tests.bench.step").main()
    import_module("tests.bench.step_groups").main()
    import_module("tests.bench.exporter").main()
    import_module("tests.bench.questions").main(sys.argv[1:])
    import_module("tests.bench.console").main()
    import_module("tests.bench.collector").main([])
    import_module("tests.bench.end_to_end").main(sys.argv[1:])


if __name__ == "__main__":
    main()
