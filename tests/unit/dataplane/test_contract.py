"""The contract as the engine on Spark has it: the same calls with the same arguments.

What an engine must do is in tests/conformance; here is only that it can be called.
"""

import inspect

import pytest

from shoal.dataplane.contract import Engine
from shoal.spark.engine import SparkEngine

CALLS = sorted(name for name in vars(Engine) if not name.startswith("_"))


def test_the_contract_has_its_five_calls() -> None:
    assert CALLS == ["announce", "call", "close", "reports", "view"]


@pytest.mark.parametrize("name", CALLS)
def test_the_engine_on_spark_can_be_called_as_the_contract_says(name: str) -> None:
    wanted = inspect.signature(getattr(Engine, name)).parameters
    found = inspect.signature(getattr(SparkEngine, name)).parameters
    assert {key: value.kind for key, value in wanted.items()} == {
        key: value.kind for key, value in found.items()
    }
