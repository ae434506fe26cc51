#!lua name=@NAME@
-- The index of pending workloads. One call is one atomic change. The name of this library, and of
-- its functions, has a digest of this text: no other library, nor another version, is meant.
--
-- KEYS[1]  <prefix>, for example {fedq:0}; all keys carry its hash tag:
--   <prefix>:meta                   HASH incarnation, owner, seq (counts the calls that change)
--   <prefix>:jobs                   HASH of each UID: generation, member and queue, with blanks
--   <prefix>:waiting:<queue>        ZSET, all scores 0, all members in dispatch order
--   <prefix>:line:<queue>:<shape>   ZSET, those of one shape that are not parked
--   <prefix>:first:<queue>          ZSET, the first of each line that is not blocked
--   <prefix>:blocked:<queue>        SET of shapes
--   <prefix>:parked:<queue>         SET of members
-- ARGV[1]  the incarnation the caller filled; another one means that the data is not the caller's
--
-- The caller counts its changing calls too: what a reading says of `seq` has to be its count, else
-- this is not what the caller made (a replica that lagged, an older file).

local function lost(keys, args)
  local meta = redis.call('HMGET', keys[1] .. ':meta', 'incarnation', 'owner')
  if meta[1] == args[1] then return nil end
  if not meta[1] then return {err = 'LOST it is empty'} end
  return {err = 'LOST it was filled by ' .. (meta[2] or 'somebody else')}
end

-- What `lost` says; a call that is not lost is counted.
local function changing(keys, args)
  local found = lost(keys, args)
  if not found then redis.call('HINCRBY', keys[1] .. ':meta', 'seq', 1) end
  return found
end

local function seq(prefix)
  return redis.call('HGET', prefix .. ':meta', 'seq')
end

local function job(prefix, uid)
  local found = redis.call('HGET', prefix .. ':jobs', uid)
  if not found then return nil end
  local generation, member, queue = string.match(found, '^(%S+) (%S+) (.*)$')
  return {generation = tonumber(generation), queue = queue, member = member}
end

local function key(prefix, kind, queue)
  return prefix .. ':' .. kind .. ':' .. queue
end

local function shape(member)
  return string.sub(member, -8)
end

local function uid(member)
  return string.sub(member, 21, -10)
end

local function line(prefix, queue, member)
  return key(prefix, 'line', queue) .. ':' .. shape(member)
end

local function blocked(prefix, queue, member)
  return redis.call('SISMEMBER', key(prefix, 'blocked', queue), shape(member)) == 1
end

-- Brings `first` in line with a change of one line, of which `before` was the first.
local function update_first(prefix, queue, name, before)
  local first = redis.call('ZRANGE', name, 0, 0)[1]
  if first == before then return end
  if before then redis.call('ZREM', key(prefix, 'first', queue), before) end
  if first then redis.call('ZADD', key(prefix, 'first', queue), 0, first) end
end

local function add(prefix, queue, member)
  local name = line(prefix, queue, member)
  local before = redis.call('ZRANGE', name, 0, 0)[1]
  redis.call('ZADD', name, 0, member)
  if not blocked(prefix, queue, member) then update_first(prefix, queue, name, before) end
end

local function remove(prefix, queue, member)
  local name = line(prefix, queue, member)
  local before = redis.call('ZRANGE', name, 0, 0)[1]
  if redis.call('ZREM', name, member) == 0 then return false end
  if not blocked(prefix, queue, member) then update_first(prefix, queue, name, before) end
  return true
end

local function forget(prefix, id, known)
  if not remove(prefix, known.queue, known.member) then
    redis.call('SREM', key(prefix, 'parked', known.queue), known.member)
  end
  redis.call('ZREM', key(prefix, 'waiting', known.queue), known.member)
  redis.call('HDEL', prefix .. ':jobs', id)
end

local function enqueue_one(prefix, queue, id, generation, member)
  local known = job(prefix, id)
  if known then
    if known.generation >= tonumber(generation) then return end
    forget(prefix, id, known)
  end
  redis.call('HSET', prefix .. ':jobs', id, generation .. ' ' .. member .. ' ' .. queue)
  redis.call('ZADD', key(prefix, 'waiting', queue), 0, member)
  add(prefix, queue, member)
end

-- ARGV: incarnation, then queue, uid, generation and member of each
local function enqueue(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  for i = 2, #args, 4 do enqueue_one(keys[1], args[i], args[i + 1], args[i + 2], args[i + 3]) end
  return 0
end

-- ARGV: incarnation, uid, generation
local function park(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  local known = job(keys[1], args[2])
  if known and known.generation == tonumber(args[3])
    and remove(keys[1], known.queue, known.member) then
    redis.call('SADD', key(keys[1], 'parked', known.queue), known.member)
  end
  return 0
end

-- ARGV: incarnation, queue, shape
local function block(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  local prefix, queue = keys[1], args[2]
  if redis.call('SADD', key(prefix, 'blocked', queue), args[3]) == 0 then return 0 end
  local first = redis.call('ZRANGE', key(prefix, 'line', queue) .. ':' .. args[3], 0, 0)[1]
  if first then redis.call('ZREM', key(prefix, 'first', queue), first) end
  return 0
end

local function reactivate_one(prefix, queue)
  local shapes = redis.call('SMEMBERS', key(prefix, 'blocked', queue))
  redis.call('DEL', key(prefix, 'blocked', queue))
  for _, found in ipairs(shapes) do
    local first = redis.call('ZRANGE', key(prefix, 'line', queue) .. ':' .. found, 0, 0)[1]
    if first then redis.call('ZADD', key(prefix, 'first', queue), 0, first) end
  end
  local parked = redis.call('SMEMBERS', key(prefix, 'parked', queue))
  redis.call('DEL', key(prefix, 'parked', queue))
  for _, member in ipairs(parked) do add(prefix, queue, member) end
end

-- ARGV: incarnation, queue...
local function reactivate(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  for i = 2, #args do reactivate_one(keys[1], args[i]) end
  return 0
end

-- ARGV: incarnation, uid
local function drop(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  local known = job(keys[1], args[2])
  if known then forget(keys[1], args[2], known) end
  return 0
end

-- ARGV: incarnation, queue...; returns seq, then generation and member of the first ready workload
-- of each queue ('' and '' if it has none)
local function heads(keys, args)
  local gone = lost(keys, args)
  if gone then return gone end
  local prefix = keys[1]
  local found = {seq(prefix)}
  for i = 2, #args do
    local member = redis.call('ZRANGE', key(prefix, 'first', args[i]), 0, 0)[1] or ''
    local generation = ''
    if member ~= '' then
      local known = job(prefix, uid(member))
      if not known then return {err = 'LOST it has no entry of job ' .. uid(member)} end
      generation = tostring(known.generation)
    end
    found[#found + 1] = generation
    found[#found + 1] = member
  end
  return found
end

-- ARGV: incarnation, depth, queue...; returns seq, then for each queue how many it has of the first
-- `depth`, and generation and member of each of them, ready or not
local function ahead(keys, args)
  local gone = lost(keys, args)
  if gone then return gone end
  local prefix = keys[1]
  local found = {seq(prefix)}
  for i = 3, #args do
    local members = redis.call('ZRANGE', key(prefix, 'waiting', args[i]), 0, tonumber(args[2]) - 1)
    found[#found + 1] = tostring(#members)
    for _, member in ipairs(members) do
      local known = job(prefix, uid(member))
      if not known then return {err = 'LOST it has no entry of job ' .. uid(member)} end
      found[#found + 1] = tostring(known.generation)
      found[#found + 1] = member
    end
  end
  return found
end

-- ARGV: incarnation, then uid and generation of each; returns seq and the UIDs that were taken out
local function claim(keys, args)
  local gone = changing(keys, args)
  if gone then return gone end
  local prefix = keys[1]
  local taken = {seq(prefix)}
  for i = 2, #args, 2 do
    local known = job(prefix, args[i])
    if known and known.generation == tonumber(args[i + 1])
      and not blocked(prefix, known.queue, known.member)
      and redis.call('SISMEMBER', key(prefix, 'parked', known.queue), known.member) == 0 then
      forget(prefix, args[i], known)
      taken[#taken + 1] = args[i]
    end
  end
  return taken
end

-- ARGV: incarnation, queue, limit; returns seq and the first members, ready or not
local function waiting(keys, args)
  local gone = lost(keys, args)
  if gone then return gone end
  local found = {seq(keys[1])}
  local last = tonumber(args[3]) - 1
  for _, member in ipairs(redis.call('ZRANGE', key(keys[1], 'waiting', args[2]), 0, last)) do
    found[#found + 1] = member
  end
  return found
end

-- How many wait in a queue, and how many of them stand in a line that can be reached, or apart.
local function counted(prefix, queue)
  local shapes, standing = {}, redis.call('SCARD', key(prefix, 'parked', queue))
  for _, member in ipairs(redis.call('ZRANGE', key(prefix, 'first', queue), 0, -1)) do
    shapes[shape(member)] = true
  end
  for _, found in ipairs(redis.call('SMEMBERS', key(prefix, 'blocked', queue))) do
    shapes[found] = true
  end
  for found in pairs(shapes) do
    standing = standing + redis.call('ZCARD', key(prefix, 'line', queue) .. ':' .. found)
  end
  return redis.call('ZCARD', key(prefix, 'waiting', queue)), standing
end

-- ARGV: incarnation, queue...; returns seq, then how many wait in each queue, ready or not
local function counts(keys, args)
  local gone = lost(keys, args)
  if gone then return gone end
  local found = {seq(keys[1])}
  for i = 2, #args do
    local waits, standing = counted(keys[1], args[i])
    if waits ~= standing then
      return {err = 'LOST queue ' .. args[i] .. ' has ' .. waits .. ' workloads, of which '
        .. standing .. ' stand in line'}
    end
    found[#found + 1] = tostring(waits)
  end
  return found
end

local function register(name, callback, flag)
  redis.register_function{
    function_name = '@NAME@_' .. name, callback = callback, flags = {flag}
  }
end

-- Only what is new needs room; all else goes on when Redis is full, so that it can empty.
redis.register_function('@NAME@_enqueue', enqueue)
register('park', park, 'allow-oom')
register('block', block, 'allow-oom')
register('reactivate', reactivate, 'allow-oom')
register('claim', claim, 'allow-oom')
register('drop', drop, 'allow-oom')
register('heads', heads, 'no-writes')
register('ahead', ahead, 'no-writes')
register('waiting', waiting, 'no-writes')
register('counts', counts, 'no-writes')
