//! Limits clients' scripts to the keys they declare and to the commands that their users may run.
//!
//! A script that wrote a key it did not declare would write without a registration: no
//! saver would ever find it. And the servers see every script as ours, not as its user's.
//! So each script gets a prologue that replaces `redis` and checks every call. It also hides
//! what leads around it to the server's own `redis`: the table of globals, and functions
//! that compile text. The prologue is one line without a line break, so that the lines of
//! errors stay those of the client's script.
//!
//! A guarded script has another hash than the client's, and one for each set of commands
//! that users are denied. A [`ScriptCache`] has all of them, so that EVALSHA finds it; a
//! script that is not in the cache gets NOSCRIPT, as on a server that does not have it.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use nagaya_command_spec::spec::{Begin, Find, KeySpec, NOSCRIPT, NOT_KEY};
use nagaya_command_spec::table::Command;
use nagaya_commands::table;
use parking_lot::Mutex;
use sha1::{Digest, Sha1};

use super::Map;

/// The limits of the cache, in scripts and in bytes; beyond either it is emptied, and clients send their
/// scripts again.
const SCRIPTS_MAX: usize = 10_000;
const BYTES_MAX: usize = 256 << 20;

/// Scripts by the hashes that clients know, and guarded ones by their own.
#[derive(Default)]
pub(crate) struct ScriptCache {
    cached: Mutex<CachedScripts>,
}

#[derive(Default)]
struct CachedScripts {
    /// Clients' scripts by their hashes.
    scripts: Map<String, Arc<[u8]>>,
    /// By the hash that clients know and what is denied.
    guarded: Map<(String, String), Guarded>,
    /// By our hash.
    known_as: Map<String, (String, String)>,
    bytes: usize,
}

/// A script as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    pub(crate) body: Arc<[u8]>,
    pub(crate) sha: String,
}

impl ScriptCache {
    /// Guards a script for who is denied these commands, and caches it; returns it with the hash that its
    /// client knows.
    pub(crate) fn add(&self, script: &[u8], denied: &[&str]) -> (String, Guarded) {
        let sha = sha_of(script);
        let guarded = self.cached.lock().guard(&sha, script, denied);
        (sha, guarded)
    }

    /// Returns a script by the hash that its client knows, in any case, for who is denied these commands.
    pub(crate) fn find(&self, sha: &[u8], denied: &[&str]) -> Option<Guarded> {
        let sha = std::str::from_utf8(sha).ok()?.to_ascii_lowercase();
        let mut cached = self.cached.lock();
        let script = Arc::clone(cached.scripts.get(&sha)?);
        Some(cached.guard(&sha, &script, denied))
    }

    /// Returns a script by its own hash.
    pub(crate) fn find_guarded(&self, sha: &[u8]) -> Option<Guarded> {
        let sha = std::str::from_utf8(sha).ok()?;
        let cached = self.cached.lock();
        let known_as = cached.known_as.get(sha)?;
        cached.guarded.get(known_as).cloned()
    }

    /// Empties the cache.
    pub(crate) fn clear(&self) {
        *self.cached.lock() = CachedScripts::default();
    }
}

impl CachedScripts {
    fn guard(&mut self, sha: &str, script: &[u8], denied: &[&str]) -> Guarded {
        let key = (sha.to_owned(), denied.join(";"));
        if let Some(known) = self.guarded.get(&key) {
            return known.clone();
        }
        let body: Arc<[u8]> = guard(script, eval_prologue(&key.1).as_bytes()).into();
        let guarded = Guarded {
            sha: sha_of(&body),
            body,
        };
        let bytes = guarded.body.len() + script.len();
        if self.guarded.len() >= SCRIPTS_MAX || self.bytes + bytes > BYTES_MAX {
            *self = CachedScripts::default();
        }
        self.bytes += bytes;
        self.scripts.insert(sha.to_owned(), script.into());
        self.known_as.insert(guarded.sha.clone(), key.clone());
        self.guarded.insert(key, guarded.clone());
        guarded
    }
}

/// Guards a library of functions.
pub(crate) fn guard_library(code: &[u8]) -> Vec<u8> {
    guard(code, LIBRARY_PROLOGUE.as_bytes())
}

/// Puts the prologue in front of a script, behind its first line if that names the engine.
fn guard(script: &[u8], prologue: &[u8]) -> Vec<u8> {
    let (head, body) = if script.starts_with(b"#!") {
        let end = script
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(script.len(), |at| at + 1);
        script.split_at(end)
    } else {
        script.split_at(0)
    };
    [head, prologue, body].concat()
}

fn sha_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(40);
    for byte in Sha1::digest(bytes) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Checks calls against `d`, the set of declared keys, and `D`, the commands that the user is denied. `S` names the commands whose keys are not just their
/// first argument: `r` first, last, step; `n` place of the count, first, step; `k` word before the key.
const CHECK: &str = concat!(
    "local function c(n,...) ",
    "if type(n)~='string' then return end ",
    "local a,m={...},select('#',...) ",
    "local function k(i) local v=a[i] if v==nil then return end v=tostring(v) ",
    "if not d[v] then error('ERR script tried to use the undeclared key '..v,0) end end ",
    "local l=string.lower(n) ",
    "if string.find(D,';'..l..';',1,true) or ",
    "string.find(D,';'..l..'|'..string.lower(tostring(a[1]))..';',1,true) then ",
    "error('ERR The user executing the script can\\'t run this command or subcommand',0) end ",
    "local _,e=string.find(S,';'..l..'=',1,true) ",
    "if not e then return k(1) end ",
    "local t=string.match(S,'([^;]*)',e+1) ",
    "if t=='!' then ",
    "_,e=string.find(S,';'..l..'|'..string.lower(tostring(a[1]))..'=',1,true) ",
    "if not e then return k(2) end ",
    "t=string.match(S,'([^;]*)',e+1) end ",
    "for h,x,y,z in string.gmatch(t,'(%a)([^,:]*),([^,:]*),([^,:]*):') do ",
    "if h=='r' then local f,g=tonumber(x),tonumber(y) if g<0 then g=m+1+g end ",
    "for i=f,g,tonumber(z) do k(i) end ",
    "elseif h=='n' then local q=tonumber(a[tonumber(x)]) or 0 local f,s=tonumber(y),tonumber(z) ",
    "for i=f,f+(q-1)*s,s do k(i) end ",
    "elseif h=='k' then for i=tonumber(y),m do if string.upper(tostring(a[i]))==x then k(i+1) end end ",
    "elseif h=='s' then for i=1,m do if string.upper(tostring(a[i]))==x then ",
    "for j=i+1,i+math.floor((m-i)/2) do k(j) end break end end ",
    "else error('ERR this command is not available to scripts here: '..l,0) end end end ",
);

/// Names that would lead to the server's own `redis`.
const HIDE: &str = "local server,_G,loadstring,load,getfenv,setfenv=redis ";

/// Returns the prologue of a script for a user who is denied these commands, parted by `;`.
fn eval_prologue(denied: &str) -> String {
    static PLACES: LazyLock<String> = LazyLock::new(key_places);
    let places = &*PLACES;
    format!(
        "local redis=(function(R) local S='{places}' local D=';{denied};' local d={{}} \
         for _,v in ipairs(KEYS) do d[v]=true end {CHECK}\
         local T={{}} for n,v in pairs(R) do T[n]=v end \
         T.call=function(...) c(...) return R.call(...) end \
         T.pcall=function(...) local ok,e=pcall(c,...) if not ok then return R.error_reply(e) end \
         return R.pcall(...) end return T end)(redis) {HIDE}"
    )
}

/// While a library is loaded only `redis` is there, another one than when its functions run, and none of
/// Lua's own functions. So nothing is looked up before a function runs, and every field is spelt out. Up to
/// the end of the statement `redis` is still the server's own.
static LIBRARY_PROLOGUE: LazyLock<String> = LazyLock::new(|| {
    let mut fields = String::new();
    for name in [
        "error_reply",
        "status_reply",
        "log",
        "sha1hex",
        "setresp",
        "set_repl",
        "replicate_commands",
        "breakpoint",
        "debug",
        "acl_check_cmd",
    ] {
        // Writing to a string does not fail.
        let _ = write!(fields, "{name}=function(...) return redis.{name}(...) end,");
    }
    format!(
        "local redis=(function() local S='{}' local D='' local d={{}} {CHECK}\
         local function w(f) return function(keys,args) d={{}} for _,v in ipairs(keys) do d[v]=true end \
         return f(keys,args) end end \
         return {{{fields}LOG_DEBUG=0,LOG_VERBOSE=1,LOG_NOTICE=2,LOG_WARNING=3,\
         REPL_NONE=0,REPL_AOF=1,REPL_SLAVE=2,REPL_REPLICA=2,REPL_ALL=3,\
         call=function(...) c(...) return redis.call(...) end,\
         pcall=function(...) local ok,e=pcall(c,...) if not ok then return redis.error_reply(e) end \
         return redis.pcall(...) end,\
         register_function=function(n,f) if f then return redis.register_function(n,w(f)) end \
         if n.callback then n.callback=w(n.callback) end return redis.register_function(n) end}} end)() \
         {HIDE}",
        key_places()
    )
});

/// Commands that scripts may not use here: they see or change more than declared keys.
const UNAVAILABLE: &[&str] = &[
    "flushall",
    "flushdb",
    "swapdb",
    "move",
    "migrate",
    "select",
    "keys",
    "scan",
    "randomkey",
    "dbsize",
];

/// Returns the key positions of the commands that have other keys than just their first argument. Commands
/// that no script may call are refused by the server.
fn key_places() -> String {
    let mut places = String::from(";");
    let is_callable = |command: &&Command| !command.spec.flags.has(NOSCRIPT);
    for command in table::all() {
        let mut subcommands = command.subcommands.iter();
        if subcommands.any(|sub| !sub.spec.keys.is_empty()) {
            // A container's keys come after the name of its subcommand, unless listed.
            let _ = write!(places, "{}=!;", command.full_name);
            let callable = command.subcommands.iter().filter(is_callable);
            callable.for_each(|sub| add_places(&mut places, sub, 1));
        } else if is_callable(&command) {
            add_places(&mut places, command, 0);
        }
    }
    places
}

fn add_places(places: &mut String, command: &Command, usual: usize) {
    let name = command.full_name.as_str();
    if UNAVAILABLE.contains(&name) {
        let _ = write!(places, "{name}=u0,0,0:;");
        return;
    }
    if command.only_key == Some(usual + 1) {
        return;
    }
    let _ = write!(places, "{name}=");
    let specs = command.spec.keys.iter().filter(|spec| !spec.flags.has(NOT_KEY));
    for spec in specs {
        match spec.begin {
            // The only keys without a position in the spec that scripts use.
            Begin::Unknown if name.starts_with("sort") => places.push_str("kSTORE,2,0:"),
            Begin::Unknown => places.push_str("u0,0,0:"),
            _ => add_place(places, spec),
        }
    }
    places.push(';');
}

fn add_place(places: &mut String, spec: &KeySpec) {
    // Writing to a string does not fail.
    let _ = match (spec.begin, spec.find) {
        (Begin::Index(first), Find::Range { last, step, .. }) if last >= 0 => {
            write!(places, "r{first},{},{step}:", first as i64 + i64::from(last))
        }
        (Begin::Index(first), Find::Range { last, step, .. }) => write!(places, "r{first},{last},{step}:"),
        (
            Begin::Index(first),
            Find::KeyNum {
                count_at,
                first: offset,
                step,
            },
        ) => {
            write!(places, "n{},{},{step}:", first + count_at, first + offset)
        }
        (Begin::Keyword(word, _), Find::Range { limit, .. }) if limit > 1 => write!(places, "s{word},0,0:"),
        (Begin::Keyword(word, from), _) => write!(places, "k{word},{},0:", from.max(1)),
        (Begin::Unknown, _) | (_, Find::Unknown) => write!(places, "u0,0,0:"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prologue_takes_no_line_of_its_own() {
        for prologue in [&eval_prologue("get;set"), &*LIBRARY_PROLOGUE] {
            assert!(!prologue.contains('\n') && !prologue.contains('\''.to_string().repeat(3).as_str()));
        }
        let guarded = guard(b"#!lua name=x\nreturn 1", b"GUARD ");
        assert_eq!(guarded, b"#!lua name=x\nGUARD return 1");
        assert_eq!(guard(b"return 1", b"GUARD "), b"GUARD return 1");
    }

    #[test]
    fn a_script_is_found_by_both_hashes() {
        let cache = ScriptCache::default();
        let (sha, guarded) = cache.add(b"return 1", &[]);
        assert_eq!(sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(
            cache
                .find(sha.to_uppercase().as_bytes(), &[])
                .map(|known| known.sha),
            Some(guarded.sha.clone())
        );
        assert!(cache.find_guarded(guarded.sha.as_bytes()).is_some());
        assert!(cache.find(guarded.sha.as_bytes(), &[]).is_none());
        let limited = cache.find(sha.as_bytes(), &["set"]).unwrap();
        assert_ne!(
            limited.sha, guarded.sha,
            "who is denied a command gets a script of their own"
        );
        assert!(cache.find_guarded(limited.sha.as_bytes()).is_some());
        cache.clear();
        assert!(cache.find(sha.as_bytes(), &[]).is_none());
    }

    #[test]
    fn places_are_listed_for_commands_with_unusual_keys() {
        let places = key_places();
        for expected in [
            ";mset=r1,-1,2:;",
            ";zunionstore=r1,1,1:n2,3,1:;",
            ";ping=;",
            ";xread=sSTREAMS,0,0:;",
            ";bitop=r2,2,1:r3,-1,1:;",
            ";object=!;",
            ";sort=r1,1,1:kSTORE,2,0:",
            ";flushall=u0,0,0:;",
        ] {
            assert!(places.contains(expected), "{expected} in {places}");
        }
        assert!(!places.contains(";get="));
        assert!(!places.contains(";object|encoding="));
    }
}
