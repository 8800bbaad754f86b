//! EVAL, EVALSHA, SCRIPT and FUNCTION LOAD.
//!
//! Under the tiering protocol clients' scripts are guarded (see [`script_guard`]); otherwise they go
//! through as they are.

use nagaya_commands::table;
use nagaya_exec::session::Session;
use nagaya_resp::{Args, Limits, Parsed, RequestParser};

use crate::proxy::env::Env;
use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::Request;
use crate::proxy::model::routes::{NodeMerge, Route, Script};
use crate::proxy::model::script_guard::{self, Guarded};

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// How a request with a script is sent on.
pub(crate) struct Prepared {
    pub(crate) route: Route,
    /// What is sent in place of the request.
    pub(crate) bytes: Option<Vec<u8>>,
    /// What the client gets in place of the reply.
    pub(crate) reply: Option<String>,
}

/// Guards the script of a request; fails with the text of an error reply. `knows_nodes` is whether a
/// request to all nodes can be sent now: otherwise it is prepared again later.
pub(crate) fn prepare(
    env: &Env<'_>,
    client: &Session,
    request: &Request<'_>,
    script: Script,
    knows_nodes: bool,
) -> Result<Prepared, String> {
    let route = match script {
        Script::Eval | Script::EvalSha => Route::Keys,
        Script::Exists => Route::Everywhere(NodeMerge::All),
        Script::FunctionRestore if env.has_tiers() => {
            return Err("ERR functions cannot be restored here: load their libraries instead".to_owned());
        }
        Script::Load | Script::Flush | Script::FunctionLoad | Script::FunctionRestore => {
            Route::Everywhere(NodeMerge::Same)
        }
    };
    if !env.has_tiers() || !knows_nodes && route != Route::Keys {
        return Ok(Prepared {
            route,
            bytes: None,
            reply: None,
        });
    }
    let denied = denied(client, request);
    let (bytes, reply) = guarded(env, &request.args, script, &denied)?;
    Ok(Prepared {
        route,
        bytes: Some(bytes),
        reply,
    })
}

/// Returns the bytes of a request with its script guarded. In a transaction the script is always sent
/// whole, because a missing one would be noticed too late.
pub(crate) fn guarded_for_transaction(
    env: &Env<'_>,
    client: &Session,
    request: &Request<'_>,
    script: Script,
) -> Result<Vec<u8>, String> {
    if !env.has_tiers() {
        return Ok(request.bytes.to_vec());
    }
    let args = &request.args;
    let denied = denied(client, request);
    match script {
        Script::Eval => {
            let (_, guarded) = env.shared.scripts.add(args.get(1).unwrap_or_default(), &denied);
            Ok(whole(args, &guarded))
        }
        Script::EvalSha => match env.shared.scripts.find(args.get(1).unwrap_or_default(), &denied) {
            Some(guarded) => Ok(whole(args, &guarded)),
            None => Err(NO_SCRIPT.to_owned()),
        },
        _ => Err("ERR Command not allowed inside a transaction".to_owned()),
    }
}

/// Lists what the script of a request may not call.
fn denied(client: &Session, request: &Request<'_>) -> Vec<&'static str> {
    client.denied_in_scripts(&table::registry().table, request.command, &request.args)
}

/// Returns why a client may not call a function, if so. Functions are loaded once for everybody, so that no
/// prologue can hold them to the rights of their caller.
pub(crate) fn refuse_function(client: &Session, request: &Request<'_>) -> Option<String> {
    let is_call = matches!(request.command.full_name.as_str(), "fcall" | "fcall_ro");
    if !is_call || denied(client, request).is_empty() {
        return None;
    }
    Some(
        "NOPERM functions run with the right to all commands here: this user has to have it, and every channel"
            .to_owned(),
    )
}

/// Returns what is sent in place of a request, and what its client gets in place of the reply.
fn guarded(
    env: &Env<'_>,
    args: &Args<'_>,
    script: Script,
    denied: &[&str],
) -> Result<(Vec<u8>, Option<String>), String> {
    let cache = &env.shared.scripts;
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    let mut reply = None;
    match script {
        Script::Eval => words[1] = cache.add(&args[1], denied).1.body.to_vec(),
        Script::EvalSha => {
            let guarded = cache.find(&args[1], denied).ok_or(NO_SCRIPT)?;
            words[1] = guarded.sha.into_bytes();
        }
        Script::Load => {
            let (sha, guarded) = cache.add(&args[2], denied);
            words[2] = guarded.body.to_vec();
            reply = Some(sha);
        }
        Script::Exists => {
            for word in &mut words[2..] {
                // A script that we do not know counts as missing: nodes know it by our hash.
                *word = cache
                    .find(word, denied)
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
    Ok((encoded_words(&words), reply))
}

/// Returns an EVALSHA of a guarded script as an EVAL with the whole script, for a node that does not have
/// it; none if the script is not one of ours.
pub(crate) fn as_eval(env: &Env<'_>, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut parser = RequestParser::default();
    let Ok(Parsed::Complete { .. }) = parser.parse(bytes, &Limits::default()) else {
        return None;
    };
    let args = parser.args(bytes);
    if !args[0].to_ascii_lowercase().starts_with(b"evalsha") {
        return None;
    }
    let guarded = env.shared.scripts.find_guarded(args.get(1).unwrap_or_default())?;
    Some(whole(&args, &guarded))
}

/// Returns EVAL or EVAL_RO with the whole script, from a request that may name it by its hash.
fn whole(args: &Args<'_>, guarded: &Guarded) -> Vec<u8> {
    let is_read_only = args[0].to_ascii_lowercase().ends_with(b"_ro");
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    words[0] = if is_read_only {
        b"EVAL_RO".to_vec()
    } else {
        b"EVAL".to_vec()
    };
    words[1] = guarded.body.to_vec();
    encoded_words(&words)
}

fn encoded_words(words: &[Vec<u8>]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    encoded(&words)
}
