"""The accuracy of token counts: the table in research/docs/counting.md.

    python research/benchmarks/counting.py SESSION...

Each session is counted with `chars` alone, and fitted to its recorded usage. Call by call, counted input is compared
with reported input, which the fit uses, and counted output with reported output, which it does not use.
"""

from __future__ import annotations

from statistics import median, quantiles

from frame import parser_of_sessions, recorded_sessions, table_head, table_row
from wane.lab.counting import Material, count, relative_errors


def output_errors(material: Material) -> list[float]:
    """Return the relative error of the counted output of each call whose output was reported."""
    errors = []
    for call in material.session.calls:
        if call.usage and call.usage.output and call.stop > call.first:
            counted = sum(item.tokens for item in material.items[call.first : call.stop])
            errors.append(abs(counted - call.usage.output) / call.usage.output)
    return errors


def row(name: str, plain: Material, fitted: Material) -> str:
    tokens = sum(item.tokens for item in fitted.items)
    cells = [name, f"{len(relative_errors(fitted))}", f"{tokens:,}", f"{fitted.overhead:,}"]
    for measure in (relative_errors, output_errors):
        for material in (plain, fitted):
            errors = measure(material)
            cells += [f"{median(errors):.1%}, {quantiles(errors, n=10)[-1]:.1%}" if len(errors) > 1 else "-"]
    return table_row(cells)


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    errors = ["input, chars", "input, fitted", "outputs, chars", "outputs, fitted"]
    print(table_head(["session", "calls", "tokens", "overhead", *errors], words=1))
    for session in sessions:
        fitted = count(session)
        if fitted.calibrated:
            print(row(f"{session.source}/{session.name}", count(session, calibrate=False), fitted))


if __name__ == "__main__":
    main()
