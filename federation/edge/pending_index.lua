#!lua name=fedq
-- The index of pending workloads. One call is one atomic change; every call may be repeated.
--
-- KEYS[1]  <prefix>, for example {fedq:0}; all keys carry its hash tag:
--   <prefix>:meta           HASH incarnation, seq (counts changes)
--   <prefix>:job:<uid>      HASH generation, queue, member, body
--   <prefix>:ready:<queue>  ZSET, all scores 0, members in dispatch order
--   <prefix>:parked:<queue> ZSET, workloads that did not fit
--   <prefix>:held:<queue>   ZSET, workloads claimed by a dispatch
-- ARGV[1]  the incarnation the caller filled; another one means that the data is not the caller's

local STATES = {'ready', 'parked', 'held'}

local function lost(keys, args)
  return redis.call('HGET', keys[1] .. ':meta', 'incarnation') ~= args[1]
end

local LOST = {err = 'LOST the index holds another incarnation'}

local function changed(prefix)
  return redis.call('HINCRBY', prefix .. ':meta', 'seq', 1)
end

local function job(prefix, uid)
  local v = redis.call('HMGET', prefix .. ':job:' .. uid, 'generation', 'queue', 'member')
  if not v[1] then return nil end
  return {generation = tonumber(v[1]), queue = v[2], member = v[3]}
end

local function remove(prefix, known)
  for _, state in ipairs(STATES) do
    redis.call('ZREM', prefix .. ':' .. state .. ':' .. known.queue, known.member)
  end
end

local function move(prefix, known, from, to)
  if redis.call('ZREM', prefix .. ':' .. from .. ':' .. known.queue, known.member) == 0 then
    return false
  end
  redis.call('ZADD', prefix .. ':' .. to .. ':' .. known.queue, 0, known.member)
  changed(prefix)
  return true
end

-- ARGV: incarnation, uid, generation, queue, member, body
local function enqueue(keys, args)
  if lost(keys, args) then return LOST end
  local prefix, uid = keys[1], args[2]
  local known = job(prefix, uid)
  if known then
    if known.generation >= tonumber(args[3]) then
      move(prefix, known, 'held', 'ready')
      return 0
    end
    remove(prefix, known)
  end
  redis.call('HSET', prefix .. ':job:' .. uid, 'generation', args[3], 'queue', args[4],
    'member', args[5], 'body', args[6])
  redis.call('ZADD', prefix .. ':ready:' .. args[4], 0, args[5])
  changed(prefix)
  return 1
end

-- ARGV: incarnation, limit, queue, shape...; returns seq and the bodies of the first ready
-- workloads whose shape (the last 8 characters of the member) is none of those given
local function heads(keys, args)
  if lost(keys, args) then return LOST end
  local prefix, limit = keys[1], tonumber(args[2])
  local ready, without, start = prefix .. ':ready:' .. args[3], {}, 0
  for i = 4, #args do without[args[i]] = true end
  local bodies = {redis.call('HGET', prefix .. ':meta', 'seq')}
  while #bodies <= limit do
    local members = redis.call('ZRANGE', ready, start, start + 499)
    if #members == 0 then break end
    start = start + #members
    for _, member in ipairs(members) do
      if #bodies > limit then break end
      if not without[string.sub(member, -8)] then
        local uid = string.sub(member, 22, -10)
        bodies[#bodies + 1] = redis.call('HGET', prefix .. ':job:' .. uid, 'body')
      end
    end
  end
  return bodies
end

-- ARGV: incarnation, uid, generation
local function claim(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known or known.generation ~= tonumber(args[3]) then return 0 end
  if move(keys[1], known, 'ready', 'held') then return 1 end
  return redis.call('ZSCORE', keys[1] .. ':held:' .. known.queue, known.member) and 1 or 0
end

-- ARGV: incarnation, uid, generation
local function park(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known or known.generation ~= tonumber(args[3]) then return 0 end
  return move(keys[1], known, 'ready', 'parked') and 1 or 0
end

-- ARGV: incarnation, uid
local function release(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  return known and move(keys[1], known, 'held', 'ready') and 1 or 0
end

-- ARGV: incarnation, queue...
local function reactivate(keys, args)
  if lost(keys, args) then return LOST end
  local count = 0
  for i = 2, #args do
    local parked = keys[1] .. ':parked:' .. args[i]
    for _, member in ipairs(redis.call('ZRANGE', parked, 0, -1)) do
      redis.call('ZADD', keys[1] .. ':ready:' .. args[i], 0, member)
      count = count + 1
    end
    redis.call('DEL', parked)
  end
  if count > 0 then changed(keys[1]) end
  return count
end

-- ARGV: incarnation, uid
local function drop(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known then return 0 end
  remove(keys[1], known)
  redis.call('DEL', keys[1] .. ':job:' .. args[2])
  changed(keys[1])
  return 1
end

-- ARGV: incarnation, queue; returns the sizes of ready, parked, held
local function sizes(keys, args)
  if lost(keys, args) then return LOST end
  local counts = {}
  for i, state in ipairs(STATES) do
    counts[i] = redis.call('ZCARD', keys[1] .. ':' .. state .. ':' .. args[2])
  end
  return counts
end

-- ARGV: incarnation, uid; returns how many ready workloads are ahead, or -1
local function position(keys, args)
  if lost(keys, args) then return LOST end
  local known = job(keys[1], args[2])
  if not known then return -1 end
  return redis.call('ZRANK', keys[1] .. ':ready:' .. known.queue, known.member) or -1
end

redis.register_function('fedq_enqueue', enqueue)
redis.register_function('fedq_claim', claim)
redis.register_function('fedq_park', park)
redis.register_function{function_name = 'fedq_release', callback = release, flags = {'allow-oom'}}
redis.register_function('fedq_reactivate', reactivate)
redis.register_function{function_name = 'fedq_drop', callback = drop, flags = {'allow-oom'}}
redis.register_function{function_name = 'fedq_heads', callback = heads, flags = {'no-writes'}}
redis.register_function{function_name = 'fedq_sizes', callback = sizes, flags = {'no-writes'}}
redis.register_function{function_name = 'fedq_position', callback = position, flags = {'no-writes'}}
