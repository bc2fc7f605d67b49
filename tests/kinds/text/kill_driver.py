"""The driver of tests/runtime/fault_driver.py, for text: a script that is started by test_commands.py."""

from __future__ import annotations

from transformers import AutoTokenizer, GPT2LMHeadModel  # noqa: F401 - imported before any fork

from internalize.kinds.text import checking  # noqa: F401 - imported before any fork
from internalize.kinds.text.experiment import TextExperiment
from tests.runtime import fault_driver

vars(fault_driver)["ChainExperiment"] = TextExperiment
fault_driver.POINTS |= {
    "next_stage": (TextExperiment, "_enter_next_stage"),
    "evaluate": (TextExperiment, "evaluate"),
}

if __name__ == "__main__":
    fault_driver.main()
