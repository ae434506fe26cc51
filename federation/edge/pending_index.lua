#!lua name=fedq
-- The index of pending workloads. One call is one atomic change; every change may be repeated.
--
-- KEYS[1]  <prefix>, for example {fedq:0}; all keys carry its hash tag:
--   <prefix>:meta                   HASH incarnation, seq (counts changes)
--   <prefix>:job:<uid>              HASH generation, queue, member
--   <prefix>:waiting:<queue>        ZSET, all scores 0, all members in dispatch order
--   <prefix>:line:<queue>:<shape>   ZSET, those of one shape that are not parked
--   <prefix>:first:<queue>          ZSET, the first of each line that is not blocked
--   <prefix>:blocked:<queue>        SET of shapes
--   <prefix>:parked:<queue>         SET of members
-- ARGV[1]  the incarnation the caller filled; another one means that the data is not the caller's

local LOST = {err = 'LOST the index holds another incarnation'}

local function lost(keys, args)
  return redis.call('HGET', keys[1] .. ':meta', 'incarnation') ~= args[1]
end

local function changed(prefix)
  redis.call('HINCRBY', prefix .. ':meta', 'seq', 1)
end

local function seq(prefix)
  return redis.call('HGET', prefix .. ':meta', 'seq')
end

local function job(prefix, uid)
  local v = redis.call('HMGET', prefix .. ':job:' .. uid, 'generation', 'queue', 'member')
  if not v[1] then return nil end
  return {generation = tonumber(v[1]), queue = v[2], member = v[3]}
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
  redis.call('DEL', prefix .. ':job:' .. id)
end

-- ARGV: incarnation, queue, uid, generation, member
local function enqueue(keys, args)
  if lost(keys, args) then return LOST end
  local prefix, queue, id = keys[1], args[2], args[3]
  local known = job(prefix, id)
  if known then
    if known.generation >= tonumber(args[4]) then return 0 end
    forget(prefix, id, known)
  end
  redis.call('HSET', prefix .. ':job:' .. id, 'generation', args[4], 'queue', queue,
    'member', args[5])
  redis.call('ZADD', key(prefix, 'waiting', queue), 0, args[5])
  add(prefix, queue, args[5])
  changed(prefix)
  return 1
end

-- ARGV: incarnation, uid, generation
local function park(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known or known.generation ~= tonumber(args[3]) then return 0 end
  if not remove(keys[1], known.queue, known.member) then return 0 end
  redis.call('SADD', key(keys[1], 'parked', known.queue), known.member)
  changed(keys[1])
  return 1
end

-- ARGV: incarnation, queue, shape
local function block(keys, args)
  if lost(keys, args) then return LOST end
  local prefix, queue = keys[1], args[2]
  if redis.call('SADD', key(prefix, 'blocked', queue), args[3]) == 0 then return 0 end
  local first = redis.call('ZRANGE', key(prefix, 'line', queue) .. ':' .. args[3], 0, 0)[1]
  if first then redis.call('ZREM', key(prefix, 'first', queue), first) end
  changed(prefix)
  return 1
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
  return #shapes + #parked
end

-- ARGV: incarnation, queue...
local function reactivate(keys, args)
  if lost(keys, args) then return LOST end
  local count = 0
  for i = 2, #args do count = count + reactivate_one(keys[1], args[i]) end
  if count > 0 then changed(keys[1]) end
  return count
end

-- ARGV: incarnation, uid
local function drop(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known then return 0 end
  forget(keys[1], args[2], known)
  changed(keys[1])
  return 1
end

-- ARGV: incarnation, queue...; returns seq, then generation and member of the first ready workload
-- of each queue ('' and '' if it has none)
local function heads(keys, args)
  if lost(keys, args) then return LOST end
  local prefix = keys[1]
  local found = {seq(prefix)}
  for i = 2, #args do
    local member = redis.call('ZRANGE', key(prefix, 'first', args[i]), 0, 0)[1] or ''
    local generation = ''
    if member ~= '' then
      generation = redis.call('HGET', prefix .. ':job:' .. uid(member), 'generation')
    end
    found[#found + 1] = generation
    found[#found + 1] = member
  end
  return found
end

-- ARGV: incarnation, then uid and generation of each; returns seq and the UIDs that were taken out
local function claim(keys, args)
  if lost(keys, args) then return LOST end
  local prefix = keys[1]
  local taken = {''}
  for i = 2, #args, 2 do
    local known = job(prefix, args[i])
    if known and known.generation == tonumber(args[i + 1])
      and not blocked(prefix, known.queue, known.member)
      and redis.call('SISMEMBER', key(prefix, 'parked', known.queue), known.member) == 0 then
      forget(prefix, args[i], known)
      taken[#taken + 1] = args[i]
    end
  end
  if #taken > 1 then changed(prefix) end
  taken[1] = seq(prefix)
  return taken
end

-- ARGV: incarnation, queue, limit; returns seq and the first members, ready or not
local function waiting(keys, args)
  if lost(keys, args) then return LOST end
  local found = {seq(keys[1])}
  local last = tonumber(args[3]) - 1
  for _, member in ipairs(redis.call('ZRANGE', key(keys[1], 'waiting', args[2]), 0, last)) do
    found[#found + 1] = member
  end
  return found
end

local function register(name, callback, flag)
  redis.register_function{function_name = 'fedq_' .. name, callback = callback, flags = {flag}}
end

redis.register_function('fedq_enqueue', enqueue)
redis.register_function('fedq_park', park)
redis.register_function('fedq_block', block)
redis.register_function('fedq_reactivate', reactivate)
register('claim', claim, 'allow-oom')
register('drop', drop, 'allow-oom')
register('heads', heads, 'no-writes')
register('waiting', waiting, 'no-writes')
