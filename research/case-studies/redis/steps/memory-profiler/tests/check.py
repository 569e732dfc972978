"""Checks of the option `NOVALUES` of `MEMORY USAGE`."""

from __future__ import annotations

from redis_checks import Client, built, existing_tests, grade, holds, server

FIELDS = 600
LONG = 1000


def behaves() -> bool:
    with server() as port:
        client = Client(port)

        def usage(key: str, *options: object) -> int:
            found = client.call("MEMORY", "USAGE", key, *options)
            if not isinstance(found, int):
                raise TypeError(f"{key} {options}: {found!r}")
            return found

        def values(key: str, *options: object) -> int:
            """The bytes that the values take: what the option leaves out."""
            return usage(key, *options) - usage(key, *options, "NOVALUES")

        for number in range(FIELDS):
            client.call("HSET", "long", f"field{number:04}", "v" * LONG)
            client.call("HSET", "short", f"field{number:04}", "v" * 10)
        for number in range(20):
            client.call("HSET", "packed", f"field{number:04}", "v" * 60)
            client.call("HSET", "packed:short", f"field{number:04}", "v" * 3)
            client.call("HSET", "packed:number", f"field{number:04}", number)
        client.call("HSET", "one", "f", "v" * 50)
        client.call("SET", "text", "x" * 100)
        client.call("RPUSH", "list", 1, 2, 3)
        for key, encoding in (("long", "hashtable"), ("short", "hashtable"), ("packed", "listpack")):
            assert client.call("OBJECT", "ENCODING", key) == encoding

        total, packed = FIELDS * LONG, 20 * 60
        # An allocator rounds up, and headers count as the value's or as the structure's: hence ranges.
        return holds(
            {
                "a table: all of the values": lambda: total <= values("long", "SAMPLES", 0) <= total * 1.2,
                "a table, sampled": lambda: total <= values("long") <= total * 1.2,
                "a table, one sample": lambda: total <= values("long", "SAMPLES", 1) <= total * 1.2,
                "a table: its fields still count": lambda: usage("long", "SAMPLES", 0, "NOVALUES") > FIELDS * 9,
                "short values: between their length and all": lambda: (
                    FIELDS * 10 <= values("short", "SAMPLES", 0) < usage("short", "SAMPLES", 0) - FIELDS * 9
                ),
                # Of the two tables one may be in the middle of growing.
                "two tables with the same fields, whatever their values": lambda: (
                    abs(usage("long", "SAMPLES", 0, "NOVALUES") - usage("short", "SAMPLES", 0, "NOVALUES"))
                    < total * 0.05
                ),
                "a listpack: all of the values": lambda: packed <= values("packed") <= packed * 1.25,
                "a listpack: its fields still count": lambda: usage("packed", "NOVALUES") > 20 * 9,
                "a listpack, sampled or not": lambda: (
                    usage("packed", "SAMPLES", 0, "NOVALUES") == usage("packed", "NOVALUES", "SAMPLES", 0)
                ),
                "a listpack: short values": lambda: 20 * 3 <= values("packed:short") <= 20 * 8,
                "a listpack: numbers": lambda: 20 <= values("packed:number") <= 20 * 12,
                "a listpack of one": lambda: 50 <= values("one") <= 80,
                "the options in either order": lambda: (
                    usage("long", "SAMPLES", 0, "NOVALUES") == usage("long", "NOVALUES", "SAMPLES", 0)
                ),
                "lower case": lambda: (
                    usage("long", "samples", 0, "novalues") == usage("long", "SAMPLES", 0, "NOVALUES")
                ),
                "no such key": lambda: client.call("MEMORY", "USAGE", "none", "NOVALUES") is None,
                "a string": lambda: client.refuses("WRONGTYPE", "MEMORY", "USAGE", "text", "NOVALUES"),
                "a list": lambda: client.refuses("WRONGTYPE", "MEMORY", "USAGE", "list", "SAMPLES", 1, "NOVALUES"),
                "a string, no option": lambda: usage("text") > 100,
                "an unknown argument": lambda: client.refuses("ERR", "MEMORY", "USAGE", "long", "VALUES"),
                "an unknown argument after it": lambda: client.refuses(
                    "ERR", "MEMORY", "USAGE", "long", "NOVALUES", "x"
                ),
                "SAMPLES without a count": lambda: client.refuses(
                    "ERR", "MEMORY", "USAGE", "long", "NOVALUES", "SAMPLES"
                ),
                "no option: all of the values": lambda: usage("long", "SAMPLES", 0) > total,
                "it writes nothing": lambda: client.call("HGET", "long", "field0000") == "v" * LONG,
                "MEMORY HELP": lambda: "NOVALUES" in str(client.call("MEMORY", "HELP")),
                "COMMAND DOCS": lambda: "NOVALUES" in str(client.call("COMMAND", "DOCS", "memory|usage")),
                "HGETALL with the option": lambda: len(client.call("HGETALL", "long", "NOVALUES")) == FIELDS,
                "the server goes on": lambda: client.call("PING") == "PONG",
            }
        )


grade(
    {
        "build": built,
        "behaviour": behaves,
        "regression": lambda: existing_tests("unit/type/hash", "unit/introspection-2", "unit/acl-v2"),
    }
)
