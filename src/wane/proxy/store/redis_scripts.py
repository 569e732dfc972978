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

NEWS: Final = f"""
local lines, known = KEYS[1], tonumber(ARGV[1])
{_CHECKSUM}
return {{redis.call('LLEN', lines), checksum_at(-1), redis.call('LRANGE', lines, known, -1)}}
"""
"""Tell what is new of a log: key lines; lines that are known. How many there are, 0 if there is no such log, the
checksum of the last, and the new ones."""

APPEND: Final = f"""
local lines, ids = KEYS[1], KEYS[2]
local id, expiry = ARGV[1], tonumber(ARGV[2])
local known, checksum, first = tonumber(ARGV[3]), ARGV[4], 5
{_CHECKSUM}
local count, added = redis.call('LLEN', lines), #ARGV - first + 1
if count == known + added and redis.call('LINDEX', lines, -1) == ARGV[#ARGV] then return 1 end
if count ~= known or checksum_at(-1) ~= checksum then return 0 end
for place = first, #ARGV do redis.call('RPUSH', lines, ARGV[place]) end
{_WRITTEN}
"""
"""Add lines to a log: keys lines and ids; id, expiry, how many lines it has and the checksum of the last, the new
lines. 1 if they are there now, 0 if it ends otherwise."""

DELETE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
"""
"""Delete a session: keys lines and ids; id. 1 if it was there."""
