"""What Redis does in one step: scripts, each safe to run twice."""

from __future__ import annotations

from typing import Final

# A line ends with its checksum, eight hexadecimal digits, and then `"}`.
_CHECKSUM: Final = """
local function checksum_at(place)
  local line = redis.call('LINDEX', lines, place)
  return line and string.sub(line, -10, -3) or ''
end
"""

_WRITTEN: Final = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', ids, ms, id)
if expiry > 0 then
  redis.call('PEXPIRE', lines, expiry)
  redis.call('PEXPIRE', ids, expiry)
  redis.call('ZREMRANGEBYSCORE', ids, '-inf', ms - expiry)
else
  redis.call('PERSIST', lines)
  redis.call('PERSIST', ids)
end
return 1
"""

BEGIN: Final = f"""
local lines, ids = KEYS[1], KEYS[2]
local id, expiry, header = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', lines) == 1 then
  return redis.call('LINDEX', lines, 0) == header and 1 or 0
end
redis.call('RPUSH', lines, header)
{_WRITTEN}
"""
"""Begin a log: keys lines and ids; id, expiry in milliseconds (0: never), the header's line. 1 if it is there now."""

TAKE: Final = f"""
local lines, holder, turn = KEYS[1], KEYS[2], KEYS[3]
local token, lease, known, patience = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
{_CHECKSUM}
local count = redis.call('LLEN', lines)
if count == 0 then return {{'gone'}} end
local other, due = redis.call('GET', holder), redis.call('GET', turn)
if due and due ~= token then return {{'busy'}} end
if other and other ~= token then
  redis.call('SET', turn, token, 'PX', patience)
  return {{'busy'}}
end
redis.call('DEL', turn)
redis.call('SET', holder, token, 'PX', lease)
return {{'taken', count, checksum_at(-1), redis.call('LRANGE', lines, known, -1)}}
"""
"""Give a session to a holder, or the next turn: keys lines, holder and turn; token, lease in milliseconds, lines that
the holder knows, milliseconds after which a turn that is not taken is lost."""

PUSH: Final = f"""
local lines, ids, holder = KEYS[1], KEYS[2], KEYS[3]
local id, expiry, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local known, checksum, first = tonumber(ARGV[4]), ARGV[5], 6
{_CHECKSUM}
local count, added = redis.call('LLEN', lines), #ARGV - first + 1
if count == known + added and redis.call('LINDEX', lines, -1) == ARGV[#ARGV] then return 1 end
if redis.call('GET', holder) ~= token then return 0 end
if count ~= known or checksum_at(-1) ~= checksum then return 0 end
for place = first, #ARGV do redis.call('RPUSH', lines, ARGV[place]) end
{_WRITTEN}
"""
"""Add lines to a log: keys lines, ids and holder; id, expiry, token, how many lines it has and the checksum of the
last, the new lines. 1 if they are there now, 0 if the session is another's or ends otherwise."""

RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
"""Prolong a lease: key holder; token, lease in milliseconds."""

DROP: Final = """
for place = 1, #KEYS do
  if redis.call('GET', KEYS[place]) == ARGV[1] then redis.call('DEL', KEYS[place]) end
end
return 1
"""
"""End a lease, and give up a turn: keys holder and turn; token."""
