"""Dataclasses that the type checker keeps frozen."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields, replace

from wane.core.light import light_dataclass


@light_dataclass(frozen=True, slots=True)
class Light:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    size: int = 0


def test_a_light_dataclass_is_compared_hashed_and_copied_as_a_frozen_one():
    light = Light("a", 1)
    assert [field.name for field in fields(Light)] == [field.name for field in fields(Frozen)]
    assert hash(light) == hash(Frozen("a", 1))
    assert light == Light("a", 1) != Light("a")
    assert replace(light, size=2) == Light("a", 2)
    assert pickle.loads(pickle.dumps(light)) == light
    assert not hasattr(light, "__dict__")


def test_a_light_dataclass_sets_its_fields_without_a_call_for_each():
    assert Light.__setattr__ is object.__setattr__
    assert Frozen.__setattr__ is not object.__setattr__
