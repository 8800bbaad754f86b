//! EVAL, EVALSHA, SCRIPT and FUNCTION LOAD.
//!
//! Under the tiering protocol clients' scripts are guarded (see [`super::model::script_guard`]);
//! otherwise they go through as they are.

use nagaya_resp::{Args, Limits, Parsed, RequestParser, encode_request};

use super::model::in_flight::{Delivery, InFlight, QueuedRequest};
use super::model::request::{Handled, Request};
use super::model::routes::{NodeMerge, Route, Script};
use super::model::script_guard::{self, Guarded};
use super::model::session::Session;
use super::slab::Key;
use super::worker::Worker;

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

impl Worker<'_> {
    pub(super) fn script(&mut self, session: &mut Session, request: &Request<'_>, script: Script) -> Handled {
        let route = match script {
            Script::Eval | Script::EvalSha => Route::Keys,
            Script::Exists => Route::Everywhere(NodeMerge::All),
            Script::Load | Script::Flush | Script::FunctionLoad => Route::Everywhere(NodeMerge::Same),
            Script::FunctionRestore if self.leases.is_some() => {
                let text = "ERR functions cannot be restored here: load their libraries instead";
                self.reply_error(session, text);
                return Handled::Done;
            }
            Script::FunctionRestore => Route::Everywhere(NodeMerge::Same),
        };
        if self.leases.is_none() || self.knows_no_nodes() && route != Route::Keys {
            return self.follow(session, request, route);
        }
        let (bytes, told) = match self.guarded(&request.args, script) {
            Ok(guarded) => guarded,
            Err(text) => {
                self.reply_error(session, &text);
                return Handled::Done;
            }
        };
        let request = Request {
            bytes: &bytes,
            ..*request
        };
        match told {
            Some(sha) => self.send_everywhere_telling(session, &request, sha),
            None => return self.follow(session, &request, route),
        }
        Handled::Done
    }

    /// Returns the bytes of a script's request with the script guarded; in a transaction always in full,
    /// because a missing script would be noticed too late.
    pub(super) fn guarded_for_transaction(
        &self,
        request: &Request<'_>,
        script: Script,
    ) -> Result<Vec<u8>, String> {
        if self.leases.is_none() {
            return Ok(request.bytes.to_vec());
        }
        let args = &request.args;
        match script {
            Script::Eval => {
                let (_, guarded) = self.shared.scripts.add(args.get(1).unwrap_or_default());
                Ok(in_full(args, &guarded))
            }
            Script::EvalSha => match self.shared.scripts.find(args.get(1).unwrap_or_default()) {
                Some(guarded) => Ok(in_full(args, &guarded)),
                None => Err(NO_SCRIPT.to_owned()),
            },
            _ => Err("ERR Command not allowed inside a transaction".to_owned()),
        }
    }

    /// Returns what is sent instead of a request, and what its client is told in place of the reply.
    fn guarded(&self, args: &Args<'_>, script: Script) -> Result<(Vec<u8>, Option<String>), String> {
        let cache = &self.shared.scripts;
        let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
        let mut told = None;
        match script {
            Script::Eval => words[1] = cache.add(&args[1]).1.body.to_vec(),
            Script::EvalSha => {
                let guarded = cache.find(&args[1]).ok_or(NO_SCRIPT)?;
                words[1] = guarded.sha.into_bytes();
            }
            Script::Load => {
                let (sha, guarded) = cache.add(&args[2]);
                words[2] = guarded.body.to_vec();
                told = Some(sha);
            }
            Script::Exists => {
                for word in &mut words[2..] {
                    // One that we do not know counts as missing: it would be asked for by a hash of ours.
                    *word = cache
                        .find(word)
                        .map_or_else(|| b"-".to_vec(), |known| known.sha.into_bytes());
                }
            }
            Script::Flush => cache.clear(),
            Script::FunctionLoad => {
                if let Some(code) = words.last_mut() {
                    *code = script_guard::guard_library(code);
                }
            }
            Script::FunctionRestore => {}
        }
        Ok((encoded(&words), told))
    }

    /// Sends a script in full that a node did not know by its hash; false when it is not one of ours.
    pub(super) fn is_script_sent_in_full(&mut self, connection: Key, in_flight: &InFlight) -> bool {
        let Some(backend) = self.backends.get(connection) else {
            return false;
        };
        let bytes = backend.bytes_of(in_flight);
        let mut parser = RequestParser::default();
        let Ok(Parsed::Complete { .. }) = parser.parse(bytes, &Limits::default()) else {
            return false;
        };
        let args = parser.args(bytes);
        let sha = args.get(1).unwrap_or_default();
        let (true, Some(guarded)) = (
            args[0].to_ascii_lowercase().starts_with(b"evalsha"),
            self.shared.scripts.find_guarded(sha),
        ) else {
            return false;
        };
        let delivery = Delivery {
            attempts: in_flight.delivery.attempts.saturating_add(1),
            ..in_flight.delivery
        };
        let bytes = in_full(&args, &guarded);
        self.resubmit_first(QueuedRequest { bytes, delivery });
        true
    }
}

/// EVAL or EVAL_RO with the whole script, from a request that may name it by its hash.
fn in_full(args: &Args<'_>, guarded: &Guarded) -> Vec<u8> {
    let is_read_only = args[0].to_ascii_lowercase().ends_with(b"_ro");
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    words[0] = if is_read_only {
        b"EVAL_RO".to_vec()
    } else {
        b"EVAL".to_vec()
    };
    words[1] = guarded.body.to_vec();
    encoded(&words)
}

fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut bytes = Vec::new();
    encode_request(&words, &mut bytes);
    bytes
}
