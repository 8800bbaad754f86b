return 'hello'
----
return 100.5
----
return -100.9
----
return 1e18
----
return 2^53
----
return 0/0
----
return 1/0
----
return true
----
return false
----
return nil
----
return
----
return {1,2,3,'ciao',{1,2}}
----
return {1,nil,3}
----
return {}
----
return _G
----
return redis
----
return {ok='fine'}
----
return {ok='two\r\nlines'}
----
return {err='ERR this is an error'}
----
return {err='no code'}
----
return {err='with\nnewline\n'}
----
return {err='x', ok='y'}
----
return {1,{err='nested'},{ok='inner'}}
----
return {double=3.25}
----
return {double=1e100}
----
return {double=0.1}
----
return {double=3}
----
return {big_number='12345678901234567890'}
----
return {big_number='12\r\n34'}
----
return {map={a=1}}
----
return {map={x={1,2}}}
----
return {set={a=true}}
----
return {verbatim_string={format='txt', string='some text'}}
----
return {verbatim_string={format='x', string='short'}}
----
return {verbatim_string={format='markdown', string='long'}}
----
return {verbatim_string={format=1, string='number'}}
----
redis.setresp(3) return true
----
redis.setresp(3) return false
----
redis.setresp(3) return {true,false,nil}
----
redis.setresp(3) return nil
----
redis.setresp(4)
----
redis.setresp()
----
redis.setresp('x')
----
return function() end
----
return coroutine.create(function() end)
----
return cjson.null
----
local a = {}; setmetatable(a,{__index=function() foo() end}) return a
----
return setmetatable({}, {__tostring=function() return 'x' end})
----
return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]}
----
return #KEYS + #ARGV
----
return redis.call('ping')
----
return redis.call('PING')['ok']
----
return redis.call('echo', 12.5)
----
return redis.call('echo', 0.1)
----
return redis.call('echo', 1e100)
----
return redis.call('echo', -0)
----
return redis.call('echo', 9007199254740993)
----
return redis.call('echo', 'bin\0ary')
----
return redis.call()
----
return redis.pcall()
----
return redis.call('nosuchcommand')
----
return redis.pcall('nosuchcommand')
----
return redis.pcall('nosuchcommand').err
----
redis.call('get','a','b','c')
----
local x = 1
local y = 2
redis.call('get')
----
return redis.call('get', {})
----
return redis.pcall('get', {})
----
return redis.call('get', true)
----
return redis.call('get', nil)
----
redis.call('set', 'k', 'v') return redis.call('get', 'k')
----
return redis.call('get', 'missing') == false
----
redis.call('set', 'word', 'x') return redis.pcall('incr', 'word')
----
redis.call('set', 'word', 'x') redis.call('incr', 'word')
----
local ok, e = pcall(redis.call, 'incr', 'word') return {tostring(ok), e}
----
local ok, e = pcall(redis.call, 'nosuchcommand') return {type(e), e}
----
local ok, e = pcall(function() redis.call('nosuchcommand') end) return e
----
local ok, e = pcall(function() error({err='MY own'}) end) return e
----
local ok, e = pcall(function() error({1,2}) end) return type(e)
----
local ok, e = pcall(error) return {tostring(ok), tostring(e)}
----
return select('#', pcall(function() return 1,2,3 end))
----
return redis.error_reply('My Err')
----
return redis.error_reply('-MYCODE text')
----
return redis.error_reply('MY_ERR_CODE custom msg')
----
return redis.error_reply('')
----
return redis.error_reply('single')
----
return redis.error_reply()
----
return redis.error_reply({})
----
return redis.error_reply(1)
----
return redis.status_reply('GOOD')
----
return redis.status_reply()
----
return redis.status_reply({})
----
return redis.sha1hex('')
----
return redis.sha1hex('Pizza & Mandolino')
----
redis.sha1hex()
----
redis.sha1hex('a', 'b')
----
return redis.sha1hex(12)
----
redis.log(redis.LOG_DEBUG)
----
redis.log('x', 'y')
----
redis.log(10, 'y')
----
return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}
----
return {redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL}
----
return redis.set_repl(redis.REPL_ALL)
----
redis.set_repl(12345)
----
redis.set_repl()
----
return redis.REDIS_VERSION
----
return redis.REDIS_VERSION_NUM
----
return redis.acl_check_cmd()
----
return redis.acl_check_cmd('invalid-cmd')
----
return redis.acl_check_cmd('get', 'x')
----
return redis.nosuchfield
----
redis.nosuchfunction()
----
return a
----
a = 10
----
return _G.a
----
_G.a = 1
----
_G['redis'] = 1
----
redis = function() return 1 end
----
_G = {}
----
setmetatable(_G, {})
----
local g = getmetatable(_G) g.__index = {}
----
rawset(_G, 'x', 1)
----
rawset(redis, 'call', 1)
----
redis.call = function() return 1 end
----
redis.x = 1
----
cjson.encode = function() return 1 end
----
cmsgpack.pack = function() return 1 end
----
bit.lshift = function() return 1 end
----
struct.pack = nil
----
string.format = nil
----
math.random = nil
----
table.insert(redis, 'x')
----
table.insert(table, 1, 'x')
----
setmetatable(string, {})
----
return getmetatable(redis) == nil
----
return type(getmetatable(_G).__index)
----
getmetatable(_G).__index()
----
getmetatable(_G).__index({}, {})
----
getmetatable(_G).__index({}, 'x')
----
local n = {} for k in pairs(redis) do n[#n+1] = k end table.sort(n) return n[1]
----
return type(rawget(redis, 'call'))
----
return type(rawget(_G, 'redis'))
----
return tostring(rawget(_G, 'nosuch'))
----
return rawequal(_G, getfenv())
----
return type(next(cjson))
----
loadfile('some file')
----
dofile('some file')
----
print('some data')
----
return debug
----
return io
----
return require
----
return loadstring(string.dump(function() return 1 end))()
----
return {type(loadstring('return 1')), loadstring('return 1')()}
----
local f, e = loadstring('return +') return e
----
local f, e = loadstring('return +', 'chunk') return e
----
local f, e = loadstring('return +', '@file') return e
----
local f, e = loadstring('return +', '=name') return e
----
local f, e = loadstring('\27Lua') return e
----
local t = {'return ', '4', '2'} local i = 0 return load(function() i = i + 1 return t[i] end)()
----
local f, e = load(function() return 1 .. '+' end) return type(e)
----
local f, e = load(function() error('boom') end) return e
----
local f, e = load(function() return {} end) return e
----
load('return 1')
----
loadstring()
----
error('boom')
----
error('boom', 0)
----
error('boom', 2)
----
error()
----
error(nil)
----
error(true)
----
error(12)
----
error({err='My custom'})
----
error({err='My custom', source='src', line='7'})
----
local t = nil
return t.x
----
local t = nil
t.x = 1
----
return 1 + {}
----
return 'a' < 1
----
return {} < {}
----
return #nil
----
return 'a' .. {}
----
local x = 'abc'
return x:nosuch()
----
undefined_function()
----
return (nil)()
----
for i = 1, 'x' do end
----
assert(false)
----
assert(false, 'message')
----
assert(nil, {err='table message'})
----
return assert(1, 2)
----
return string.format('%5.1f|%d|%s|%q|%x|%c|%5s|%-5s|%%', 3.14159, 42, 'x', 'q"\n\0', 255, 65, 'a', 'b')
----
return string.format('%d', 'x')
----
return string.format('%s')
----
return string.format('%y', 1)
----
return string.format('%.14g', 0.1)
----
return tostring(0.1) .. ' ' .. tostring(1e15) .. ' ' .. tostring(1e14) .. ' ' .. tostring(-0) .. ' ' .. tostring(2^63)
----
return tostring(1/0) .. tostring(-1/0)
----
return tostring(nil) .. tostring(true)
----
return {tonumber('10'), tonumber('0x10'), tonumber('10', 2), tonumber('zz', 36), tostring(tonumber('x'))}
----
return tonumber('10', 99)
----
return {string.find('hello world', 'wor')}
----
return {string.find('hello world', 'o', 6)}
----
return {string.find('hello', 'l+')}
----
return {string.find('hello', '(h)(.)')}
----
return {string.find('a.b', '.', 1, true)}
----
return {string.find('abc', 'b', -1)}
----
return {string.find('abc', 'b', -10)}
----
return {string.find('abc', '', 10)}
----
return {string.find('', '')}
----
return {string.match('key=value', '(%w+)=(%w+)')}
----
return {string.match('  trim  ', '^%s*(.-)%s*$')}
----
return {string.match('2024-01-02', '(%d+)-(%d+)-(%d+)')}
----
return {string.match('hello', '()ll()')}
----
return string.match('hello', 'x') == nil
----
return {string.gsub('hello world', 'o', '0')}
----
return {string.gsub('hello world', '(%w+)', '<%1>')}
----
return {string.gsub('hello', '', '-')}
----
return {string.gsub('abc', '%w', '%0%0')}
----
return {string.gsub('abc', 'b', {b='X'})}
----
return {string.gsub('abc', '%w', {b='X', c=false})}
----
return {string.gsub('abc', '%w', function(c) if c ~= 'b' then return c:upper() end end)}
----
return {string.gsub('hello world', '%w+', '%0 %0', 1)}
----
return {string.gsub('abc', '^a', 'x')}
----
return {string.gsub('abc', '(a)(b)(c)', '%3%2%1')}
----
return {string.gsub('a b', '()', '%1')}
----
return {string.gsub('$name is', '%$(%w+)', setmetatable({}, {__index=function(t,k) return k..'!' end}))}
----
return string.gsub('abc', 'b', '%2')
----
return string.gsub('abc', 'b', '%')
----
return string.gsub('abc', 'b', function() return {} end)
----
return string.gsub('abc', 'b', function() error('inside') end)
----
local ok, e = pcall(string.gsub, 'abc', 'b', function() error('inside') end) return e
----
return string.gsub('abc', 'b', true)
----
return string.gsub('abc', '(', 'x')
----
return string.gsub('abc', '%', 'x')
----
return string.gsub('abc', '[a', 'x')
----
return string.find('abc', '[%')
----
return string.find('abc', '%f')
----
return string.find('abc', '%b')
----
return string.find('abc', '(()')
----
return string.find('a', '%1')
----
return {string.find('THE (quick) fox', '%f[%a]%a+%f[%A]')}
----
return {string.find('f(a(b)c)d', '%b()')}
----
local t = {} for w in string.gmatch('one two  three', '%a+') do t[#t+1] = w end return t
----
local t = {} for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do t[#t+1] = k .. v end return t
----
local t = {} for w in string.gmatch('abc', '') do t[#t+1] = 'x' end return #t
----
local t = {} for w in string.gfind('a b', '%a') do t[#t+1] = w end return t
----
return string.find('a\0b', 'b')
----
return {string.find('a\0b', '\0b')}
----
return {string.find('a\0b', '%z')}
----
return {string.match('x]y', '[]]')}
----
return {string.match('a-z', '[a%-]+')}
----
return {string.match('09az', '[0-9]+'), string.match('09az', '[^0-9]+')}
----
return string.find()
----
return string.find('a')
----
return string.find('a', {})
----
return string.match('a', 'a', {})
----
return string.rep('ab', 3)
----
return string.rep('ab', 0) .. string.rep('ab', -1) .. string.rep('', 100)
----
return string.rep()
----
return string.rep('x')
----
return string.rep('x', 'y')
----
return ('x'):rep(3):upper():lower():len()
----
return {('hello'):byte(1, -1)}
----
return string.char(72, 105) .. string.reverse('abc') .. string.sub('hello', 2, -2)
----
return string.char(256)
----
return {unpack({1,2,3})}
----
return {unpack({1,2,3}, 2)}
----
return {unpack({1,2,3}, 2, 3)}
----
return {unpack({1,2,3}, -1, 1)}
----
return select('#', unpack({}, 1, 100))
----
return unpack({}, 1, 1e6)
----
return unpack()
----
return {select(2, 'a', 'b', 'c')}
----
return {select(-1, 'a', 'b', 'c')}
----
return select(0)
----
local t = {5,2,8,1} table.sort(t) return t
----
local t = {5,2,8,1} table.sort(t, function(a,b) return a > b end) return t
----
table.sort({1,'x'})
----
local t = {1,2,3} table.insert(t, 4) table.insert(t, 1, 0) table.remove(t) table.remove(t, 1) return t
----
return table.concat({1,2,'x'}, ', ')
----
return table.concat({1,{},3})
----
return table.concat({}, ',', 1, 3)
----
return {table.getn({1,2,3}), table.maxn({1,2,[10]=3})}
----
table.insert()
----
table.insert({}, 1, 2, 3)
----
local t = {} table.foreach({a=1}, function(k, v) t[1] = k; t[2] = v end) return t
----
return {math.floor(1.5), math.ceil(1.5), math.max(1,5,3), math.min(4,2), math.abs(-3), math.fmod(7,3), math.mod(7,3)}
----
return tostring(math.pi) .. tostring(math.huge)
----
math.randomseed(0) return {tostring(math.random()), math.random(10), math.random(5, 6)}
----
math.randomseed(10) return tostring(math.random())
----
math.randomseed(-5) return {tostring(math.random()), math.random(1000000)}
----
math.random(0)
----
math.random(5, 1)
----
math.random(1, 2, 3)
----
math.randomseed()
----
return {pcall(function() error('x', 0) end)}
----
return {xpcall(function() error('x', 0) end, function(e) return 'handled ' .. e end)}
----
local ok, e = xpcall(function() redis.call('nosuchcommand') end, function(e) return e end) return e
----
local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
local _, x = coroutine.resume(co, 1) local _, y = coroutine.resume(co, 10) return {x, y, coroutine.status(co)}
----
local co = coroutine.wrap(function() error('in coroutine') end) co()
----
local co = coroutine.wrap(function() return redis.call('echo', 'from coroutine') end) return co()
----
local co = coroutine.wrap(function() redis.call('nosuchcommand') end) co()
----
coroutine.yield(1)
----
setfenv(1, {redis=redis}) x = 5 return x
----
local f = function() return y end setfenv(f, {y=7}) return f()
----
setfenv(redis.call, {})
----
return type(getfenv(0))
----
return type(getmetatable('').__index)
----
local t = setmetatable({}, {__metatable='locked'}) return getmetatable(t)
----
setmetatable(setmetatable({}, {__metatable='locked'}), {})
----
setmetatable({}, 1)
----
return getmetatable()
----
return {next({}) == nil, next({10})}
----
next({}, 'x')
----
next()
----
pairs()
----
pairs(nil)
----
rawset({}, nil, 1)
----
rawget({})
----
local t = {} t[nil] = 1
----
local t = {} t[0/0] = 1
----
return collectgarbage('count') > 0
----
collectgarbage('bad')
----
return type(gcinfo())
----
return _VERSION
----
return arg
----
local function f(...) return arg.n end return f(1,2,3)
----
local function f() return f() end return 1
----
local function f() return 1 + f() end f()
----
local t = {} for i = 1, 300 do t = {t} end return cjson.encode(t):len()
----
return {bit.tobit(1), bit.tobit(0xffffffff), bit.tobit(2^40+1), bit.tobit(-1.5), bit.tobit(1.5), bit.tobit(2.5)}
----
return {bit.bnot(0), bit.band(0xff, 0x0f), bit.bor(1,2,4,8,16,32,64,128), bit.bxor(1,2,3)}
----
return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-256, 4), bit.rol(0x12345678, 12), bit.ror(0x12345678, 12)}
----
return {bit.lshift(1, 32), bit.lshift(1, 33), bit.rol(1, 0), bit.bswap(0x12345678)}
----
return {bit.tohex(1), bit.tohex(-1), bit.tohex(0x87654321, 4), bit.tohex(0xabcdef, -8), bit.tohex(1, 0), bit.tohex(1, 20)}
----
return {bit.band(1), bit.tobit('7'), bit.tobit(1e300)}
----
bit.band()
----
bit.band('x')
----
bit.band(1, {})
----
bit.tohex(1, nil)
----
return cjson.encode({1,2,3})
----
return cjson.encode({a=1})
----
return cjson.encode({})
----
return cjson.encode({[1]=1,[2]=2,[4]=4})
----
return cjson.encode({[1]=1,[20]=20})
----
return cjson.encode({[1]=1,x=2})
----
return cjson.encode({[1.5]=1})
----
return cjson.encode({[true]=1})
----
return cjson.encode({[0]=1})
----
return cjson.encode({[-1]=1})
----
return cjson.encode({f=function() end})
----
return cjson.encode(coroutine.create(function() end))
----
return cjson.encode({cjson.null, true, false, 'str'})
----
return cjson.encode('\0\1\31\127"\\/\b\f\n\r\t\200')
----
return cjson.encode({1.5, 0.1, 1e20, 1e-7, 123456789012345, -0, 100, 1e14, 1e15})
----
return cjson.encode(0/0)
----
return cjson.encode({1/0})
----
return cjson.encode()
----
return cjson.encode(1, 2)
----
return cjson.encode(nil)
----
local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)
----
local t = {} t.t = t return cjson.encode(t)
----
local t = {} for i = 1, 40 do t['key' .. i] = i end return cjson.encode(t)
----
return cjson.decode('[1, 2.5, "x", true, false, null, {"a": [1]}]')[4] and 1
----
return cjson.encode(cjson.decode('[1, 2.5, "x", true, false, null, {"a": [1]}]'))
----
return table.concat(cjson.decode("[0.0, -5e3, -1, 0.3e-3, 1023.2, 0e10]"), " ")
----
return cjson.decode('"\\u00e9\\u20ac\\ud83d\\ude00\\n\\t\\\\\\/\\b\\f\\r\\""')
----
return cjson.decode('"\\ud83d"')
----
return cjson.decode('"\\ude00"')
----
return cjson.decode('"\\u12g4"')
----
return cjson.decode('"\\x"')
----
return cjson.decode('"abc')
----
return cjson.decode('"a\tb"')
----
return cjson.decode('')
----
return cjson.decode('  ')
----
return cjson.decode('[')
----
return cjson.decode(']')
----
return cjson.decode('[1')
----
return cjson.decode('[1,')
----
return cjson.decode('[1,]')
----
return cjson.decode('[1 2]')
----
return cjson.decode('{')
----
return cjson.decode('{"a"}')
----
return cjson.decode('{"a":}')
----
return cjson.decode('{"a":1,}')
----
return cjson.decode('{"a":1 "b":2}')
----
return cjson.decode('{1:2}')
----
return cjson.decode('nul')
----
return cjson.decode('tru')
----
return cjson.decode('True')
----
return cjson.decode('x')
----
return cjson.decode('1 2')
----
return cjson.decode('-')
----
return cjson.decode('+5')
----
return cjson.decode('.5')
----
return tostring(cjson.decode('1e5'))
----
return tostring(cjson.decode('0x1F'))
----
return tostring(cjson.decode('007'))
----
return tostring(cjson.decode('inf')) .. tostring(cjson.decode('-infinity'))
----
return type(cjson.decode('nan'))
----
return cjson.decode('1' .. string.rep('0', 70) .. 'x')
----
return tostring(cjson.decode('0.' .. string.rep('1', 100)))
----
return cjson.decode('\0\0')
----
return cjson.decode('1\0garbage')
----
return cjson.decode(5)
----
cjson.decode({})
----
cjson.decode()
----
cjson.decode('1', '2')
----
return cjson.decode(string.rep('[', 1001) .. string.rep(']', 1001))
----
return #cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000))
----
return cjson.encode(cjson.decode('{"a":{},"b":[]}'))
----
return {cjson._NAME, cjson._VERSION, tostring(cjson.null)}
----
return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision()}
----
local r = {cjson.encode_max_depth(5), cjson.decode_max_depth(6)} cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) return r
----
cjson.encode_max_depth(0)
----
cjson.encode_max_depth('x')
----
cjson.encode_max_depth(1, 2)
----
cjson.encode_number_precision(15)
----
cjson.encode_number_precision(3) local r = cjson.encode(3.14159) cjson.encode_number_precision(14) return r
----
cjson.encode_invalid_numbers(true) local r = cjson.encode({1/0, -1/0, 0/0}) cjson.encode_invalid_numbers(false) return r
----
cjson.encode_invalid_numbers('null') local r = cjson.encode({1/0, 0/0}) cjson.encode_invalid_numbers(false) return r
----
return {cjson.encode_invalid_numbers(), tostring(cjson.decode_invalid_numbers()), tostring(cjson.encode_keep_buffer())}
----
cjson.encode_invalid_numbers('bad')
----
cjson.encode_invalid_numbers({})
----
cjson.decode_invalid_numbers(false) local ok, e = pcall(cjson.decode, '0x1F') cjson.decode_invalid_numbers(true) return e
----
cjson.decode_invalid_numbers('off') local ok, e = pcall(cjson.decode, '[nan]') cjson.decode_invalid_numbers('on') return e
----
cjson.encode_sparse_array(true) local r = cjson.encode({[1]=1,[100]=2}) cjson.encode_sparse_array(false) return r
----
local r = {cjson.encode_sparse_array(false, 3, 12)} cjson.encode_sparse_array(false, 2, 10) return {tostring(r[1]), r[2], r[3]}
----
cjson.encode_sparse_array(false, -1)
----
local c = cjson.new() c.encode_max_depth(1) return {pcall(c.encode, {{}}), cjson.encode({{}})}
----
return cmsgpack.pack(1, 'a', true, false, nil, {1,2}, {a=1})
----
return cmsgpack.pack(0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 2^53, 2^63, 2^64)
----
return cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, -2^53, -2^63)
----
return cmsgpack.pack(0.1, 0.5, 1e100, 1/0, -1/0)
----
return cmsgpack.pack('', string.rep('x', 31), string.rep('x', 32), string.rep('x', 255), string.rep('x', 256))
----
return #cmsgpack.pack(string.rep('x', 65535)) + #cmsgpack.pack(string.rep('x', 65536))
----
local t = {} for i = 1, 16 do t[i] = i end return cmsgpack.pack(t)
----
local t = {} for i = 1, 65536 do t[i] = 1 end return #cmsgpack.pack(t)
----
return cmsgpack.pack({}, {[1]=1,[3]=3}, {[0]=1}, {[1.5]=1})
----
return cmsgpack.pack(function() end, cjson.null)
----
local a = {x=nil,y=5} local b = {x=a} a['x'] = b return cmsgpack.pack(a)
----
cmsgpack.pack()
----
return {cmsgpack.unpack(cmsgpack.pack(1, 'a', true, {1,{2}}, {k='v'}))}
----
return cjson.encode({cmsgpack.unpack(cmsgpack.pack(1, -1, 200, -200, 70000, -70000, 2^40, -2^40, 0.5, 0.1))})
----
return {cmsgpack.unpack_one('\1\2\3')}
----
return {cmsgpack.unpack_one('\1\2\3', 1)}
----
return {cmsgpack.unpack_one('\1\2\3', 2)}
----
return {cmsgpack.unpack_limit('\1\2\3', 2)}
----
return {cmsgpack.unpack_limit('\1\2\3', 2, 1)}
----
return {cmsgpack.unpack_limit('\1\2\3', 0, 0)}
----
return {cmsgpack.unpack_limit('\1\2\3', -1)}
----
return {cmsgpack.unpack_one('\1\2\3', -1)}
----
return {cmsgpack.unpack_one('\1\2\3', 4)}
----
return {cmsgpack.unpack_one('\1\2\3', 3)}
----
return {cmsgpack.unpack('')}
----
return cmsgpack.unpack('\193')
----
return cmsgpack.unpack('\204')
----
return cmsgpack.unpack('\161')
----
return cmsgpack.unpack('\219\255\255\255\255')
----
return cmsgpack.unpack('\221\255\255\255\255')
----
return cmsgpack.unpack('\129\192\1')
----
return cmsgpack.unpack('\129\1\192')
----
return cmsgpack.unpack('\146\192\1')[2]
----
return cmsgpack.unpack('\129\203\127\248\0\0\0\0\0\0\1')
----
cmsgpack.unpack()
----
cmsgpack.unpack({})
----
cmsgpack.unpack_limit('\1')
----
return {cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION}
----
return struct.pack('bBhHlLTiI', 1, 255, -2, 65534, -3, 3, 4, -5, 5)
----
return struct.pack('>bBhHlLTiI', 1, 255, -2, 65534, -3, 3, 4, -5, 5)
----
return struct.pack('<fd', 1.5, -2.25) .. struct.pack('>fd', 1.5, -2.25)
----
return struct.pack('i1i2i3i5i8', 1, 2, 3, 4, 5) .. struct.pack('>I3', 0x010203)
----
return struct.pack('sc3c0', 'zero', 'abcdef', 'all')
----
return struct.pack('x!4xi!8xd', 7, 1.5)
----
return struct.pack('!bi', 1, 2)
----
return struct.pack('c5', 'abc')
----
return struct.pack('i33', 1)
----
return struct.pack('i99999999999', 1)
----
return struct.pack('!3i', 1)
----
return struct.pack('z', 1)
----
return struct.pack('i', 'x')
----
return struct.pack('i')
----
struct.pack()
----
return {struct.unpack('bBhHi', struct.pack('bBhHi', -1, 255, -2, 65535, -3))}
----
return {struct.unpack('>I3I2', '\1\2\3\4\5')}
----
return {struct.unpack('<i3', '\255\255\255')}
----
return {struct.unpack('sBs', 'abc\0\5de\0')}
----
return {struct.unpack('Bc0', '\3abcd')}
----
return {struct.unpack('c2c', 'abc')}
----
return {struct.unpack('c0', 'abc')}
----
return {struct.unpack('s', 'abc')}
----
return {struct.unpack('i', 'abc')}
----
return {struct.unpack('Bc0', '\9abc')}
----
return {struct.unpack('B', 'abc', 3)}
----
return {struct.unpack('B', 'abc', 4)}
----
return {struct.unpack('B', 'abc', 0)}
----
return {struct.unpack('B', 'abc', -1)}
----
return {struct.unpack('xB', 'abc')}
----
return {struct.unpack('f', struct.pack('f', 0.5)), struct.unpack('>d', struct.pack('>d', 3.5))}
----
return {struct.size('bhild'), struct.size('!bhild'), struct.size('c10'), struct.size('i3x')}
----
return struct.size('s')
----
return struct.size('c0')
----
return struct.size('z')
----
return struct.size('?')
----
return struct.unpack('z', 'abc')
----
struct.unpack('i')
----
return 1 +
----
return 'unfinished
----
x = = 1
----
for
----
return [[long]] .. [==[le]]vel]==]
----
return 'a' --trailing comment
----
goto done
----
return 0x7fffffff, 0xffffffff
----
return {0x7fffffff, 0xffffffff, 1e2, .5, 3.}
----
#!lua
return 1
----
#!lua flags=no-writes
return redis.call('ping')
----
#!lua flags=allow-stale,no-cluster

error('third line')
----
#!not-lua
return 1
----
#!lua name=foo
return 1
----
#!lua flags=bad-flag
return 1
----
#!lua
----
local s = 0 for i = 1, 1000 do s = s + i end return s
----
local t = {} for i = 1, 7999 do t[i] = 1 end return select('#', unpack(t))
----
local t = {} for i = 1, 8001 do t[i] = 1 end return select('#', unpack(t))
----
return redis.breakpoint and 1 or 0
----
return {type(redis.debug), type(redis.replicate_commands), type(redis.register_function)}
