//! Has clients' scripts register what they write, and holds them to what their users may do.
//!
//! A script may write keys that it does not declare, and a write without a registration is one that no saver
//! would ever find. And the servers see every script as ours, not as its user's. So each script gets a prologue
//! that replaces `redis` and looks at every call (see [`super::script_prologue`]).
//!
//! A guarded script has another hash than the client's, and one for each set of commands
//! that users are denied. A [`ScriptCache`] has all of them, so that EVALSHA finds it; a
//! script that is not in the cache gets NOSCRIPT, as on a server that does not have it.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use sha1::{Digest, Sha1};

use super::Map;
use super::script_prologue;

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

    /// Returns whether a guarded script is one for who is denied these commands.
    pub(crate) fn is_guarded_for(&self, body: &[u8], denied: &[&str]) -> bool {
        let cached = self.cached.lock();
        let known_as = cached.known_as.get(&sha_of(body));
        known_as.is_some_and(|(_, known)| *known == denied.join(";"))
    }

    /// Puts the hash that clients know in place of our own, in the error of a script. Both are of one length.
    pub(crate) fn restore_hash(&self, error: &[u8]) -> Option<Vec<u8>> {
        const BEFORE: &[u8] = b"script: ";
        let at = error.windows(BEFORE.len()).position(|part| part == BEFORE)? + BEFORE.len();
        let own = std::str::from_utf8(error.get(at..at + 40)?).ok()?;
        let cached = self.cached.lock();
        let (known, _) = cached.known_as.get(own)?;
        Some([&error[..at], known.as_bytes(), &error[at + 40..]].concat())
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
        let body: Arc<[u8]> = guard(script, script_prologue::of_script(script, &key.1).as_bytes()).into();
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
    guard(code, script_prologue::of_library(code).as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prologue_goes_behind_the_line_that_names_the_engine() {
        let guarded = guard(b"#!lua name=x\nreturn 1", b"GUARD ");
        assert_eq!(guarded, b"#!lua name=x\nGUARD return 1");
        assert_eq!(guard(b"return 1", b"GUARD "), b"GUARD return 1");
    }

    #[test]
    fn errors_name_the_script_as_its_client_knows_it() {
        let cache = ScriptCache::default();
        let (sha, guarded) = cache.add(b"return 1", &[]);
        let error = |sha: &str| format!("-ERR no script: {sha}, on @user_script:1.\r\n").into_bytes();
        assert_eq!(cache.restore_hash(&error(&guarded.sha)), Some(error(&sha)));
        assert_eq!(cache.restore_hash(&error(&sha)), None);
        assert_eq!(cache.restore_hash(b"-ERR script: \r\n"), None);
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
}
