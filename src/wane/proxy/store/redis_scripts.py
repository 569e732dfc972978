"""The Redis scripts. Each is one step, and safe to repeat."""

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
"""Create a log. Keys: lines, ids. Arguments: id, expiry in milliseconds (0: never), the header's line. 1 if it exists
now with that header, else 0."""

NEWS: Final = f"""
local lines, known = KEYS[1], tonumber(ARGV[1])
{_CHECKSUM}
return {{redis.call('LLEN', lines), checksum_at(-1), redis.call('LRANGE', lines, known, -1)}}
"""
"""Read the new lines of a log. Key: lines. Argument: number of known lines. Returns the number of lines (0 if there is
no such log), the checksum of the last one, and the new lines."""

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
"""Append lines to a log. Keys: lines, ids. Arguments: id, expiry, the number of its lines and the checksum of the last
one, the new lines. 1 if they are in it now, 0 if the log ends differently."""

DELETE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
"""
"""Delete a session. Keys: lines, ids. Argument: id. 1 if it existed."""
