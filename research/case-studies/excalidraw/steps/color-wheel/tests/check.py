"""Checks of the step: types, behaviour, and tests that there were."""

from __future__ import annotations

from excalidraw_checks import behaves, existing_tests, grade, typechecks

grade(
    {
        "types": typechecks,
        "behaviour": lambda: behaves("color-wheel"),
        "regression": lambda: existing_tests(
            "shortcuts.test.tsx", "zindex.test.tsx", "resize.test.tsx", "clipboard.test.tsx"
        ),
    }
)
