"""Checks of the option `NOVALUES` of `HGETALL`."""

from __future__ import annotations

from redis_checks import Client, built, existing_tests, grade, holds, server

SMALL = {f"field{number}": f"value{number}" for number in range(10)}
LARGE = {f"field{number}": f"value{number}" for number in range(1000)}


def behaves() -> bool:
    with server() as port:
        two, three = Client(port), Client(port, protocol=3)
        for key, data in (("small", SMALL), ("large", LARGE)):
            two.call("HSET", key, *(word for pair in data.items() for word in pair))
        two.call("HSET", "numbers", 1, 10, 2, 20)
        two.call("SET", "text", "x")
        assert two.call("OBJECT", "ENCODING", "small") == "listpack"
        assert two.call("OBJECT", "ENCODING", "large") == "hashtable"

        def fields(client: Client, key: str, option: str = "NOVALUES") -> object:
            found = client.call("HGETALL", key, option)
            return sorted(found) if isinstance(found, list) else found

        flat = sorted(word for pair in SMALL.items() for word in pair)
        return holds(
            {
                "fields of a small hash, RESP2": lambda: fields(two, "small") == sorted(SMALL),
                "fields of a small hash, RESP3": lambda: fields(three, "small") == sorted(SMALL),
                "fields of a large hash, RESP2": lambda: fields(two, "large") == sorted(LARGE),
                "fields of a large hash, RESP3": lambda: fields(three, "large") == sorted(LARGE),
                "fields that are numbers": lambda: fields(two, "numbers") == ["1", "2"],
                "the option in lower case": lambda: fields(two, "small", "novalues") == sorted(SMALL),
                "the option in mixed case": lambda: fields(two, "large", "NoValues") == sorted(LARGE),
                "no such key, RESP2": lambda: two.call("HGETALL", "none", "NOVALUES") == [],
                "no such key, RESP3": lambda: three.call("HGETALL", "none", "NOVALUES") == [],
                "no such key, no option, RESP3": lambda: three.call("HGETALL", "none") == {},
                "another type": lambda: two.refuses("WRONGTYPE", "HGETALL", "text", "NOVALUES"),
                "another type, no option": lambda: two.refuses("WRONGTYPE", "HGETALL", "text"),
                "an unknown argument": lambda: two.refuses("ERR", "HGETALL", "small", "VALUES"),
                "an empty argument": lambda: two.refuses("ERR", "HGETALL", "small", ""),
                "the beginning of the option's name": lambda: two.refuses("ERR", "HGETALL", "small", "NOVALUE"),
                "an argument too many": lambda: two.refuses("ERR", "HGETALL", "small", "NOVALUES", "NOVALUES"),
                "no key": lambda: two.refuses("ERR", "HGETALL"),
                "no option, RESP2": lambda: fields(two, "small") and sorted(two.call("HGETALL", "small")) == flat,
                "no option, RESP3": lambda: three.call("HGETALL", "small") == SMALL,
                "no option, a large hash, RESP3": lambda: three.call("HGETALL", "large") == LARGE,
                "in a script": lambda: (
                    sorted(two.call("EVAL", "return redis.call('hgetall', KEYS[1], 'novalues')", 1, "small"))
                    == sorted(SMALL)
                ),
                "its arity": lambda: two.call("COMMAND", "INFO", "hgetall")[0][1] == -2,
                "its documented arguments": lambda: "NOVALUES" in str(two.call("COMMAND", "DOCS", "hgetall")),
                "its key": lambda: two.call("COMMAND", "GETKEYS", "HGETALL", "small", "NOVALUES") == ["small"],
                "it reads, and does not write": lambda: "readonly" in two.call("COMMAND", "INFO", "hgetall")[0][2],
            }
        )


grade(
    {
        "build": built,
        "behaviour": behaves,
        "regression": lambda: existing_tests("unit/type/hash", "unit/introspection-2"),
    }
)
