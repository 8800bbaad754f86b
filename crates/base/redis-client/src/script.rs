//! Lua scripts as typed constants.

use std::sync::OnceLock;

use nagaya_resp::Frame;
use sha1::{Digest, Sha1};

use crate::connection::Connection;
use crate::error::Error;

/// A script of its own file, with names for its keys and arguments. Meant for statics: its hash is
/// computed once.
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    pub source: &'static str,
    pub keys: &'static [&'static str],
    pub args: &'static [&'static str],
    sha: OnceLock<String>,
}

impl Script {
    pub const fn new(
        name: &'static str,
        source: &'static str,
        keys: &'static [&'static str],
        args: &'static [&'static str],
    ) -> Script {
        Script {
            name,
            source,
            keys,
            args,
            sha: OnceLock::new(),
        }
    }

    /// Returns the SHA-1 of the source in hex, which is the script's name on the server.
    pub fn sha(&self) -> &str {
        self.sha.get_or_init(|| {
            let digest = Sha1::digest(self.source.as_bytes());
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        })
    }

    /// Returns the request that runs the script: by its hash, or in full after a miss.
    pub(crate) fn request<'a>(
        &'a self,
        how: Form,
        keys: &[&'a [u8]],
        args: &[&'a [u8]],
    ) -> ScriptRequest<'a> {
        assert_eq!(keys.len(), self.keys.len(), "keys of {}", self.name);
        assert_eq!(args.len(), self.args.len(), "arguments of {}", self.name);
        let (command, body): (&[u8], &[u8]) = match how {
            Form::Hash => (b"EVALSHA", self.sha().as_bytes()),
            Form::Source => (b"EVAL", self.source.as_bytes()),
        };
        ScriptRequest {
            command,
            body,
            key_count: keys.len().to_string(),
            rest: keys.iter().chain(args).copied().collect(),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Form {
    Hash,
    Source,
}

pub(crate) struct ScriptRequest<'a> {
    command: &'a [u8],
    body: &'a [u8],
    key_count: String,
    rest: Vec<&'a [u8]>,
}

impl ScriptRequest<'_> {
    pub(crate) fn args(&self) -> Vec<&[u8]> {
        let mut args = vec![self.command, self.body, self.key_count.as_bytes()];
        args.extend(&self.rest);
        args
    }
}

/// Returns whether a reply says that the server does not have the script.
pub(crate) fn is_missing(frame: &Frame) -> bool {
    matches!(frame, Frame::Error(text) if text.starts_with(b"NOSCRIPT"))
}

impl Connection {
    /// Runs a script by its hash, and in full if the server does not know it yet.
    pub async fn eval(&self, script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> Result<Frame, Error> {
        for form in [Form::Hash, Form::Source] {
            let request = script.request(form, keys, args);
            let request = request.args();
            let replies = self.pipeline_within(&[&request], self.reply_limit()).await?;
            let reply = replies.into_iter().next().expect("one request has one reply");
            if !is_missing(&reply) || matches!(form, Form::Source) {
                return self.checked(&[script.name.as_bytes()], reply);
            }
        }
        unreachable!("the second form is always returned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_redis_computes() {
        let script = Script::new("one", "return 1", &[], &[]);
        assert_eq!(script.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
