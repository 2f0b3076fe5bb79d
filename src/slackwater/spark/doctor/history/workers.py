"""What Spark's Python workers do before a task.

Rules kept here
- After every task Spark's daemon has the collector look at every object of the worker. Most of them are modules, which
  stay: looking at them takes longer than many a task. What is loaded is therefore put out of the collector's sight.
"""

import gc


def keep_loaded() -> None:
    """Say that what is there now stays."""
    gc.freeze()
