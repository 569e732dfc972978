"""How reliable inferred causes of broken caches are.

    python research/benchmarks/cache_causes.py SESSION...

It prints the figures in docs/lab/doctor.md that `wane doctor` does not: how often requests were paid again with and
without a supposed cause, and how often a read would end by chance where an inference expects it.
"""

from __future__ import annotations

from collections import Counter

from frame import parser_of_sessions
from wane.caches import SKILL_LOADED, UNSURE, breaks_cache, dates_prompt
from wane.lab.cache.paid_again import Requests, examine
from wane.lab.readers import gather
from wane.rewrites import SMALLEST, Cause


def main() -> None:
    paths = parser_of_sessions(__doc__).parse_args().sessions
    requests = Counter[str]()  # by what happened before the request
    broken = Counter[str]()  # requests among them that were paid again
    chances = dict[Cause, list[float]]()
    within = Counter[str]()  # requests within the lifetime of a cache of five minutes, by what they follow
    nothing_read = Counter[str]()  # requests among them that read nothing
    unused = Counter[str]()  # requests with automatic caching, by the length of the pause
    events = Counter[str]()  # requests of Claude Code, by the event before them
    compared = set[tuple[str, str]]()
    tokens = after_pauses = 0
    for recording in gather(paths, sidechains=True).recordings:
        rewrites = {rewrite.call: rewrite for rewrite in examine(recording.session).rewrites}
        comparison = Requests(recording.session)
        for _, sent, before in comparison.pairs():
            pair = before.call.id, sent.call.id
            if all(pair) and pair in compared:
                continue  # already seen in another state of the same session
            compared.add(pair)
            rewrite = rewrites.get(sent.number)
            pause = sent.seconds_since(before) or 0.0
            first, last = before.call.first, sent.call.first
            spoken = any(first < turn <= last for turn in recording.session.user_turns)
            compacted = any(first < compaction.position <= last for compaction in recording.session.compactions)
            if pause >= sent.rules.lifetime:
                name = "pause"
            elif compacted:
                name = "compaction"
            else:
                name = "neither"
            requests[name] += 1
            trigger = "a turn of the user" if spoken else "a result"
            if not sent.rules.breakpoints and pause < sent.rules.lifetime:
                key = f"automatic caching, {'over' if pause > UNSURE else 'under'} {UNSURE:.0f} s"
                unused[key] += 1
                unused[f"{key}, paid again"] += rewrite is not None
            if name == "neither" and sent.rules.lifetime == 300 and sent.rules.breakpoints:
                dated = "dated prompts" if dates_prompt(recording.session.source, sent.call.at) else "others"
                length = "over" if pause >= 30 else "under"
                key = f"{dated}, after {trigger}, {length} 30 s"
                within[key] += 1
                nothing_read[key] += not sent.usage.cache_read
            if name == "neither" and recording.session.source == "claude-code" and before.call.model == sent.call.model:
                event = comparison.client_event(before, sent)
                until = "before the fix" if breaks_cache(event or SKILL_LOADED, sent.call.version) else "since the fix"
                key = f"{event or trigger}, {until}"
                events[key] += 1
                events[f"{key}: paid again"] += rewrite is not None
            if rewrite is None:
                continue
            broken[name] += 1
            tokens += rewrite.tokens
            if name == "pause":
                after_pauses += rewrite.tokens
            width = {Cause.ROUTING: 8 * sent.rules.grid, Cause.REASONING: 2 * SMALLEST}.get(rewrite.explanation.cause)
            ends = rewrite.explanation.cause is Cause.REASONING or "before ended" in rewrite.explanation.evidence
            if width is not None and ends:
                chances.setdefault(rewrite.explanation.cause, []).append(min(1.0, width / before.cached))
    for name, count in sorted(within.items()):
        print(f"{name}: {nothing_read[name]:,} of {count:,} read nothing of a cache of five minutes")
    for name, count in sorted(unused.items()):
        print(f"{name}: {count:,}")
    for name, count in sorted(events.items()):
        print(f"Claude Code, {name}: {count:,}")
    for name, count in requests.items():
        print(f"after {name}: {broken[name]:,} of {count:,} requests paid again")
    print(f"always answering idle would be right for {after_pauses / tokens:.1%} of the tokens at most")
    for cause, shares in chances.items():
        mean = sum(shares) / len(shares)
        print(f"{cause}: a read that ends by chance would fit in {mean:.1%} of {len(shares)} cases")


if __name__ == "__main__":
    main()
