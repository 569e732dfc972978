"""A command."""

from dataclasses import dataclass
from typing import Annotated

from wane.cli.parser import Command
from wane.flags import Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class GreetOptions:
    """Write a postcard."""

    to: Annotated[str, Flag("--to", "Whom to greet.", "NAME")] = "you"


def greet(options: GreetOptions) -> int:
    print(f"Greetings to {options.to}!")
    return 0


GREET = Command("greet", "postcards.greeting:GreetOptions", "postcards.greeting:greet")
