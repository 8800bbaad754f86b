//! The Lua text in front of clients' scripts and functions.
//!
//! It puts a table of ours in the place of `redis`, whose `call` and `pcall` look at each command first:
//!
//! - The words that the proxy has added to the request are taken off again, so that the script sees the keys and
//!   arguments of its client: for each tag the names of its list of dirty keys and of the index behind the keys, and
//!   behind the arguments the reach (see [`super::script_words`]), a fresh token and the tags.
//! - The command's keys are found by its key specification. All must have a tag of the declared keys. Others
//!   than the declared ones are for users who may use them.
//! - A key that the command may write is put on the list of dirty keys with the token, once in a run of the
//!   script: in the same atomic step as the write, ahead of it. The token is always put, also over another one:
//!   a saver may hold a snapshot under that one, taken before this write.
//! - Commands that the user may not run are refused.
//!
//! What leads around it to the server's own `redis` is hidden: the table of globals, and functions that compile
//! text. The prologue is one line, so that the lines of errors stay those of the client's script.
//!
//! Entries of commands whose names occur in the script are a Lua table; all others stand in one string that is
//! searched when a script makes up a name.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

use nagaya_command_spec::spec::{
    Begin, DENYOOM, Find, KeyFlags, KeySpec, NOSCRIPT, NOT_KEY, OW, RM, RW, WRITE,
};
use nagaya_command_spec::table::Command;
use nagaya_commands::table;

use super::Map;

/// Finds, checks and registers keys. What is local to one run is set by `begin`, which also looks up Lua's
/// functions: while a library is loaded there are none.
///
/// An entry has `m` if its command is refused when memory is full, `c` if subcommands follow,
/// `x` if the server itself refuses it to scripts, `u` if it sees more than a tag, `f` if its reply lists names
/// (1: all of it, 2: its second element), `o` if its only key is the first argument (1: written, 2: read). Other
/// keys are places: `r` first, last, step; `n` place of the count, first, step; `k` and `s` word, from: the
/// argument behind the word, or half of those behind it; and whether they are written. `p` stands for keys that
/// are made from patterns.
const CHECK: &str = concat!(
    "local R,find,sub,lower,upper,match,g,tok,T,seen,reg,M,d ",
    "local function begin(K,A) R=redis find,sub,lower,upper,match=string.find,string.sub,string.lower,",
    "string.upper,string.match local X=table.remove(A) g,tok=sub(X,1,1),sub(X,2,33) local x={} ",
    "if find(g,'%u') then g=lower(g) local p=34 while p<=#X do local e=find(X,':',p,true) ",
    "local n=tonumber(sub(X,p,e-1)) x[#x+1]=sub(X,e+1,e+n) p=e+n+1 end ",
    "elseif g~='-' then x[1]=sub(X,34) end T={} ",
    // Of each tag: the list of its dirty keys, the index, and whether nothing was registered yet.
    "for i=#x,1,-1 do local I=table.remove(K) T[x[i]]={table.remove(K),I,true} end seen,reg,M={},{},nil ",
    "if g~='a' then d={} for i=1,#K do d[K[i]]=true end end end ",
    "local function E(s) s='ERR '..s if R.REDIS_VERSION then error({err=s},0) end error(s,0) end ",
    "local function of(k) local s=find(k,'{',1,true) if s then local e=find(k,'}',s+1,true) ",
    "if e and e>s+1 then return sub(k,s+1,e-1) end end return k end ",
    "local function check(k) ",
    "if sub(k,1,6)=='_room:' then E('key names that begin with _room: are kept for the server itself') end ",
    "if g=='-' then E('script tried to use the key '..k..' and declares none: declare one of its hash tag') end ",
    "local t=of(k) if not T[t] then ",
    "E('script tried to use the key '..k..', which has another hash tag than the keys it declares') end ",
    "if g~='a' and not d[k] and not (g=='t' and sub(k,1,#t+2)=='{'..t..'}') then ",
    "E('script tried to use the undeclared key '..k..', which its user may not use') end seen[k]=true end ",
    "local function use(v,w,m) if type(v)=='number' then v=string.format('%.17g',v) ",
    "elseif type(v)~='string' then return end if not seen[v] then check(v) end ",
    "if w and not reg[v] then local n=of(v) local t=T[n] if M then R.set_repl(R.REPL_ALL) end ",
    // A first write that needs no memory: a DEL runs when memory is full, so its announcement must too.
    "if t[3] and not m then R.call('PERSIST',t[1]) end R.call('HSET',t[1],v,tok) ",
    "if t[3] then local s=R.call('TIME') ",
    "R.call('ZADD',t[2],'NX',s[1]*1000+math.floor(s[2]/1000),n) t[3]=false end ",
    "reg[v]=true if M then R.set_repl(M) end end end ",
    "local function lack(l) E('this command is not available to scripts here: '..l) end ",
    "local function miss(l) local _,e=find(S,';'..l..'=',1,true) local p={} ",
    // A name that the server does not know either is let through to its own error.
    "if not e then local r=R.pcall('COMMAND','INFO',l) ",
    "if type(r)~='table' or r.err or type(r[1])=='table' then lack(l) end return p end ",
    "local f,t=match(S,'(%w*):([^;]*)',e+1) for x in string.gmatch(f,'%a%d?') do ",
    "p[sub(x,1,1)]=tonumber(sub(x,2)) or true end ",
    "for h,x,y,z,w in string.gmatch(t,'(%a)([^,:]*),([^,:]*),([^,:]*),(%d):') do ",
    "p[#p+1]={h,tonumber(x) or x,tonumber(y),tonumber(z),w=='1'} end P[l]=p return p end ",
    "local function each(p,a,m) for i=1,#p do local h=p[i] local y,w=h[1],h[5] ",
    "if y=='r' then local e=h[3] if e<0 then e=m+1+e end for j=h[2],e,h[4] do use(a[j],w,p.m) end ",
    "elseif y=='n' then local z=tonumber(a[h[2]]) or 0 ",
    "for j=h[3],math.min(h[3]+(z-1)*h[4],m),h[4] do use(a[j],w,p.m) end ",
    "elseif y=='k' then for j=h[3],m do if upper(tostring(a[j]))==h[2] then use(a[j+1],w,p.m) end end ",
    "elseif y=='p' then for j=h[3],m-1 do local o,v=upper(tostring(a[j])),tostring(a[j+1]) ",
    "if o=='BY' and find(v,'*',1,true) or o=='GET' and v~='#' then ",
    "E(o..' option of SORT denied in cluster mode.') end end ",
    "else for j=h[3],m do if upper(tostring(a[j]))==h[2] then ",
    "for x=j+1,j+math.floor((m-j)/2) do use(a[x],w,p.m) end break end end end end end ",
    "local function c(n,...) if type(n)~='string' then return end local p=P[n] local l=n ",
    "if not p then l=lower(n) p=P[l] or miss(l) end ",
    "if p.c then l=l..'|'..lower(tostring((...))) p=P[l] or miss(l) end ",
    "if N~='' and find(N,';'..l..';',1,true) then ",
    "E('The user executing the script can\\'t run this command or subcommand') end ",
    "if p.o then return use((...),p.o==1,p.m) end if p.u or p.f and g=='-' then lack(l) end ",
    "if #p>0 then each(p,{...},select('#',...)) end return p.f end ",
    "local function own(r) local o={} for i=1,#r do local k=r[i] ",
    "if T[of(k)] and sub(k,1,6)~='_room:' then o[#o+1]=k end end return o end ",
    "local function names(f,r) if type(r)~='table' or r.err then return r end ",
    "if f==1 then return own(r) end r[2]=own(r[2]) return r end ",
    "local function call(...) local f=c(...) if f then return names(f,R.call(...)) end return R.call(...) end ",
    "local function try(...) local ok,f=pcall(c,...) ",
    "if not ok then if type(f)=='table' then return f end return R.error_reply(f) end ",
    "if f then return names(f,R.pcall(...)) end return R.pcall(...) end ",
    "local function repl(m) local r=R.set_repl(m) M=m return r end ",
);

/// What the names of functions begin with on the nodes. A library that was not loaded through us, or through an
/// earlier version, has no prologue that registers what it writes, so its functions must not be found.
pub(crate) const FUNCTION_MARK: &str = "_room_";

/// Names that would lead to the server's own `redis`.
const HIDE: &str = "local server,_G,loadstring,load,getfenv,setfenv=redis ";

/// Returns the prologue of a script for a user who is denied these commands, parted by `;`.
pub(crate) fn of_script(script: &[u8], denied: &str) -> String {
    let (used, others) = (used_in(script), &ENTRIES.others);
    let denied = if denied.is_empty() {
        String::new()
    } else {
        format!(";{denied};")
    };
    format!(
        "local redis=(function() local P={{{used}}} local S='{others}' local N='{denied}' {CHECK}begin(KEYS,ARGV) \
         return setmetatable({{call=call,pcall=try,set_repl=repl}},{{__index=function(_,k) \
         if k~='call' and k~='pcall' and k~='set_repl' then return R[k] end end,__metatable=false}}) end)() {HIDE}"
    )
}

/// Returns the prologue of a library.
///
/// While a library is loaded only `redis` is there, another one than when its functions run, and none of
/// Lua's own functions. So nothing is looked up before a function runs, and every field is spelt out. Up to
/// the end of the statement `redis` is still the server's own.
pub(crate) fn of_library(code: &[u8]) -> String {
    let mut fields = String::new();
    for name in [
        "error_reply",
        "status_reply",
        "log",
        "sha1hex",
        "setresp",
        "replicate_commands",
        "breakpoint",
        "debug",
        "acl_check_cmd",
    ] {
        // Writing to a string does not fail.
        let _ = write!(fields, "{name}=function(...) return redis.{name}(...) end,");
    }
    let (used, others) = (used_in(code), &ENTRIES.others);
    format!(
        "local redis=(function() local P={{{used}}} local S='{others}' local N='' {CHECK}\
         local function w(f) return function(keys,args) begin(keys,args) return f(keys,args) end end \
         return {{{fields}LOG_DEBUG=0,LOG_VERBOSE=1,LOG_NOTICE=2,LOG_WARNING=3,\
         REPL_NONE=0,REPL_AOF=1,REPL_SLAVE=2,REPL_REPLICA=2,REPL_ALL=3,\
         call=call,pcall=try,set_repl=repl,\
         register_function=function(n,f) if f then return redis.register_function('{FUNCTION_MARK}'..n,w(f)) end \
         if n.callback then n.callback=w(n.callback) end \
         if n.function_name then n.function_name='{FUNCTION_MARK}'..n.function_name end \
         return redis.register_function(n) end}} end)() {HIDE}"
    )
}

/// Commands that scripts may not use here: they see or change more than a tag.
const UNAVAILABLE: &[&str] = &[
    "flushall",
    "flushdb",
    "swapdb",
    "move",
    "migrate",
    "select",
    "randomkey",
    "dbsize",
];

/// What is known of every command, for Lua.
struct Entries {
    /// By name, as a field of a table.
    fields: Map<String, String>,
    /// All in one string.
    others: String,
}

static ENTRIES: LazyLock<Entries> = LazyLock::new(|| {
    let mut entries = Entries {
        fields: Map::default(),
        others: String::from(";"),
    };
    for command in table::every() {
        let name = &command.full_name;
        let Entry { flags, only, places } = Entry::of(command);
        let mut field = format!("['{name}']={{");
        for flag in flags.chars().filter(char::is_ascii_alphabetic) {
            let _ = write!(field, "{flag}=true,");
        }
        let mut text = format!("{name}={flags}");
        if let Some((letter, value)) = only {
            let _ = write!(field, "{letter}={value},");
            let _ = write!(text, "{letter}{value}");
        }
        text.push(':');
        for place in &places {
            let [kind, x, y, z, written] = place;
            let x_text = if x.parse::<i64>().is_ok() {
                x.clone()
            } else {
                format!("'{x}'")
            };
            let _ = write!(field, "{{'{kind}',{x_text},{y},{z},{}}},", written == "1");
            let _ = write!(text, "{kind}{x},{y},{z},{written}:");
        }
        field.push_str("},");
        entries.others.push_str(&text);
        entries.others.push(';');
        entries.fields.insert(name.clone(), field);
    }
    entries
});

/// Returns the entries of the commands whose names occur in a script.
fn used_in(script: &[u8]) -> String {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let words = script
        .split(|byte| !is_part(byte))
        .filter(|word| !word.is_empty());
    let words: BTreeSet<String> = words
        .filter_map(|word| Some(std::str::from_utf8(word).ok()?.to_ascii_lowercase()))
        .collect();
    let mut used = String::new();
    for word in &words {
        let Some(field) = ENTRIES.fields.get(word) else {
            continue;
        };
        used.push_str(field);
        let Some(command) = table::find_full(word.as_bytes()) else {
            continue;
        };
        for sub in &command.subcommands {
            let name = sub.full_name.split('|').next_back().unwrap_or_default();
            if let Some(field) = ENTRIES
                .fields
                .get(&sub.full_name)
                .filter(|_| words.contains(name))
            {
                used.push_str(field);
            }
        }
    }
    used
}

const WRITTEN: KeyFlags = RW.and(OW).and(RM);

#[derive(Default)]
struct Entry {
    flags: String,
    only: Option<(char, u8)>,
    places: Vec<[String; 5]>,
}

impl Entry {
    fn of(command: &Command) -> Entry {
        let (mut entry, spec) = (Entry::default(), command.spec);
        let name = command.full_name.as_str();
        if !command.subcommands.is_empty() {
            entry.flags.push('c');
            return entry;
        }
        if spec.flags.has(NOSCRIPT) {
            entry.flags.push('x');
            return entry;
        }
        if UNAVAILABLE.contains(&name) {
            entry.flags.push('u');
            return entry;
        }
        match name {
            "keys" => entry.only = Some(('f', 1)),
            "scan" => entry.only = Some(('f', 2)),
            _ => {}
        }
        if spec.flags.has(DENYOOM) {
            entry.flags.push('m');
        }
        let keys: Vec<&KeySpec> = spec.keys.iter().filter(|key| !key.flags.has(NOT_KEY)).collect();
        let written = |key: &KeySpec| key.flags.has(WRITTEN);
        // A command that writes without saying which keys may write all of them.
        let writes_all = spec.flags.has(WRITE) && !keys.iter().any(|key| written(key));
        if command.only_key == Some(1) {
            let is_written = writes_all || spec.flags.has(WRITE) || keys.iter().any(|key| written(key));
            entry.only = Some(('o', if is_written { 1 } else { 2 }));
            return entry;
        }
        for key in keys {
            match place(name, key) {
                Some([kind, x, y, z]) => {
                    let written = u8::from(writes_all || written(key)).to_string();
                    entry.places.push([kind, x, y, z, written]);
                }
                None => {
                    return Entry {
                        flags: "u".to_owned(),
                        ..Entry::default()
                    };
                }
            }
        }
        entry
    }
}

/// Returns where keys are; none if that cannot be told.
fn place(name: &str, key: &KeySpec) -> Option<[String; 4]> {
    let place =
        |kind: &str, x: String, y: i64, z: i64| Some([kind.to_owned(), x, y.to_string(), z.to_string()]);
    match (key.begin, key.find) {
        // The only keys without a position in the spec that scripts use: the one that SORT stores to, and those
        // that it makes from a pattern.
        (Begin::Unknown, _) if name.starts_with("sort") && key.flags.has(WRITTEN) => {
            place("k", "STORE".to_owned(), 2, 0)
        }
        (Begin::Unknown, _) if name.starts_with("sort") => place("p", "0".to_owned(), 2, 0),
        (Begin::Index(first), Find::Range { last, step, .. }) => {
            let last = i64::from(last);
            let last = if last >= 0 { first as i64 + last } else { last };
            place("r", first.to_string(), last, step as i64)
        }
        (
            Begin::Index(first),
            Find::KeyNum {
                count_at,
                first: offset,
                step,
            },
        ) => {
            let (count_at, first) = (first + count_at, first + offset);
            place("n", count_at.to_string(), first as i64, step as i64)
        }
        (Begin::Keyword(word, from), Find::Range { limit, .. }) if limit > 1 => {
            place("s", word.to_owned(), from.max(1) as i64, 0)
        }
        (Begin::Keyword(word, from), Find::Range { .. }) => {
            place("k", word.to_owned(), from.max(1) as i64, 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prologue_takes_no_line_of_its_own() {
        for prologue in [of_script(b"return redis.call('GET')", "get;set"), of_library(b"")] {
            assert!(!prologue.contains('\n'));
        }
    }

    #[test]
    fn every_command_is_listed_with_its_keys() {
        for expected in [
            ";get=o2:;",
            ";set=mo1:;",
            ";del=:r1,-1,1,1:;",
            ";mset=m:r1,-1,2,1:;",
            ";zunionstore=m:r1,1,1,1:n2,3,1,0:;",
            ";ping=:;",
            ";xread=:sSTREAMS,1,0,0:;",
            ";bitop=m:r2,2,1,1:r3,-1,1,0:;",
            ";object=c:;",
            ";sort=m:r1,1,1,0:p0,2,0,0:kSTORE,2,0,1:;",
            ";sort_ro=:r1,1,1,0:p0,2,0,0:;",
            ";xreadgroup=:sSTREAMS,4,0,1:;",
            ";flushall=u:;",
            ";keys=f1:;",
            ";blpop=x:;",
            ";eval=x:;",
            ";rename=:r1,1,1,1:r2,2,1,1:;",
        ] {
            assert!(
                ENTRIES.others.contains(expected),
                "{expected} in {}",
                ENTRIES.others
            );
        }
    }

    #[test]
    fn commands_that_a_script_names_are_found_without_a_search() {
        let used = used_in(b"redis.call('SET',KEYS[1]) redis.call(\"object\", 'encoding', k) -- xadd_");
        for name in ["set", "object", "object|encoding"] {
            assert!(used.contains(&format!("['{name}']=")), "{name} in {used}");
        }
        assert!(used.contains("['set']={m=true,o=1,}"), "{used}");
        assert!(!used.contains("object|freq") && !used.contains("xadd"), "{used}");
    }
}
