//! EVAL, EVALSHA, FCALL, SCRIPT and FUNCTION LOAD.
//!
//! Under the tiering protocol clients' scripts are guarded (see [`script_guard`]); otherwise they go
//! through as they are.

use nagaya_command_spec::table::Command;
use nagaya_commands::table;
use nagaya_connections::acl::check::ScriptKeys;
use nagaya_exec::session::Session;
use nagaya_resp::{ArgVec, Args, Limits, Parsed, RequestParser};

use crate::proxy::env::Env;
use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::Request;
use crate::proxy::model::routes::{NodeMerge, Route, Script};
use crate::proxy::model::script_guard::{self, Guarded};
use crate::proxy::model::script_words;

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
        Script::Eval | Script::EvalSha | Script::Call => Route::Keys,
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
    let (bytes, reply) = guarded(env, client, request, script)?;
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
    let script_named = args.get(1).unwrap_or_default();
    let guarded = match script {
        Script::Call => None,
        Script::Eval => Some(env.shared.scripts.add(script_named, &denied).1),
        Script::EvalSha => Some(env.shared.scripts.find(script_named, &denied).ok_or(NO_SCRIPT)?),
        _ => return Err("ERR Command not allowed inside a transaction".to_owned()),
    };
    let mut words = match guarded {
        Some(guarded) => whole(args, &guarded),
        None => {
            let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
            script_words::mark_function(&mut words);
            words
        }
    };
    add_words(env, client, request, &mut words)?;
    Ok(encoded_words(&words))
}

/// Adds to a call of a script what its prologue needs; fails with the text of an error reply.
fn add_words(
    env: &Env<'_>,
    client: &Session,
    request: &Request<'_>,
    words: &mut Vec<Vec<u8>>,
) -> Result<(), String> {
    let tags = script_words::tags_of_call(&request.args)?;
    let allowed = allowed_keys(client, request.command, &request.args, &tags);
    let allowed = allowed.unwrap_or(ScriptKeys::Declared);
    script_words::add(words, &tags, env.shared.tokens.draw(), allowed);
    Ok(())
}

/// Returns which keys a script may use: those that its user may use of every one of its tags. None without tags.
fn allowed_keys(client: &Session, command: &Command, args: &Args<'_>, tags: &[&[u8]]) -> Option<ScriptKeys> {
    let of_tags = tags.iter().map(|tag| client.keys_in_scripts(command, args, tag));
    of_tags.min_by_key(|allowed| match allowed {
        ScriptKeys::Declared => 0,
        ScriptKeys::OfTag => 1,
        ScriptKeys::All => 2,
    })
}

/// Returns a request that was sent as its client has asked it, if it is the call of a script with words of ours.
pub(crate) fn as_asked(env: &Env<'_>, command: &Command, args: &Args<'_>) -> Option<ArgVec> {
    (env.has_tiers() && script_words::is_call(&command.full_name)).then(|| script_words::without(args))
}

/// Returns whether a queued script is still held to the rights that its user has now.
pub(crate) fn are_rights_the_same(
    env: &Env<'_>,
    client: &Session,
    command: &Command,
    (sent, asked): (&Args<'_>, &Args<'_>),
) -> bool {
    if !env.has_tiers() || !script_words::is_call(&command.full_name) {
        return true;
    }
    let tags = script_words::tags_of_call(asked).unwrap_or_default();
    let allowed = allowed_keys(client, command, asked, &tags);
    let denied = client.denied_in_scripts(&table::registry().table, command, asked);
    let is_function = command.full_name.starts_with("fcall");
    let body = sent.get(1).unwrap_or_default();
    let is_guarded_the_same = if is_function {
        denied.is_empty()
    } else {
        env.shared.scripts.is_guarded_for(body, &denied)
    };
    is_guarded_the_same && script_words::allows(sent, allowed)
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
    client: &Session,
    request: &Request<'_>,
    script: Script,
) -> Result<(Vec<u8>, Option<String>), String> {
    let (cache, args) = (&env.shared.scripts, &request.args);
    let denied = &denied(client, request)[..];
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    let mut reply = None;
    match script {
        Script::Eval => {
            words[1] = cache.add(&args[1], denied).1.body.to_vec();
            add_words(env, client, request, &mut words)?;
        }
        Script::EvalSha => {
            let guarded = cache.find(&args[1], denied).ok_or(NO_SCRIPT)?;
            words[1] = guarded.sha.into_bytes();
            add_words(env, client, request, &mut words)?;
        }
        Script::Call => {
            script_words::mark_function(&mut words);
            add_words(env, client, request, &mut words)?;
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
    Some(encoded_words(&whole(&args, &guarded)))
}

/// Returns the words of EVAL or EVAL_RO with the whole script, from a request that may name it by its hash.
fn whole(args: &Args<'_>, guarded: &Guarded) -> Vec<Vec<u8>> {
    let is_read_only = args[0].to_ascii_lowercase().ends_with(b"_ro");
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    words[0] = if is_read_only {
        b"EVAL_RO".to_vec()
    } else {
        b"EVAL".to_vec()
    };
    words[1] = guarded.body.to_vec();
    words
}

fn encoded_words(words: &[Vec<u8>]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    encoded(&words)
}
