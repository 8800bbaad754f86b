//! The steps of [`nagaya_tiering::protocol`] as scripts, one file each, and their typed wrappers.
//!
//! A script runs where the tag is and as one step. It is given the node's run (see [`super::run`]) and
//! refuses a tag that another run wrote; registration alone has no condition. Where a script could stop
//! halfway, because a key has moved to another node meanwhile, its order of steps leaves a state that
//! the next one repairs. Keys that are known beforehand are declared, so that such a call is refused whole.
//!
//! The dirty list and the probe need no script: they are a pipeline of plain commands.

use nagaya_redis_client::{Frame, Script, reply};
use nagaya_resp::encode_request;
use nagaya_tiering::cold::{Change, Kind, Snapshot, StoredValue, Version};
use nagaya_tiering::hot::{Chunk, Installed, SavedKeys, TagCopy};
use nagaya_tiering::protocol::{LoadStart, Token, Touched};

use super::keys;
use super::run::RunDigest;

const META: &str = "meta";
const DIRTY: &str = "dirty";
const INDEX: &str = "index";
const USED: &str = "used";
const QUIET: &str = "quiet";
/// Any number of further keys or arguments.
const MORE: &str = "...";

static TOUCH: Script = Script::new(
    "touch",
    include_str!("scripts/touch.lua"),
    &[META, USED],
    &["run", "tag"],
);
static REGISTER: Script = Script::new(
    "register",
    include_str!("scripts/register.lua"),
    &[DIRTY, INDEX],
    &["token", "tag", MORE],
);
static BEGIN: Script = Script::new(
    "begin",
    include_str!("scripts/begin.lua"),
    &[META, USED],
    &["run", "token", "tag"],
);
static INSTALL: Script = Script::new(
    "install",
    include_str!("scripts/install.lua"),
    &[META, DIRTY, INDEX, QUIET, MORE],
    &[
        "run",
        "token",
        "tag",
        "gen",
        "saved_gen",
        "saved_snap",
        "part",
        "rows",
        MORE,
    ],
);
static SNAPSHOT: Script = Script::new(
    "snapshot",
    include_str!("scripts/snapshot.lua"),
    &[META, DIRTY, INDEX],
    &["run", "tag"],
);
static REMOVE: Script = Script::new(
    "remove",
    include_str!("scripts/remove.lua"),
    &[META, DIRTY, INDEX],
    &["run", "gen", "tag", MORE],
);
static MARK: Script = Script::new(
    "mark",
    include_str!("scripts/mark.lua"),
    &[META, DIRTY],
    &["run", "token"],
);
static CONFIRM: Script = Script::new(
    "confirm",
    include_str!("scripts/confirm.lua"),
    &[META, DIRTY, USED, QUIET, MORE],
    &["run", "token", "tag"],
);

/// Returns all scripts, to load them before their first use.
pub fn all() -> [&'static Script; 8] {
    [
        &TOUCH, &REGISTER, &BEGIN, &INSTALL, &SNAPSHOT, &REMOVE, &MARK, &CONFIRM,
    ]
}

/// How a script is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By its hash; a server that does not have it replies NOSCRIPT.
    Hash,
    /// With its source, which every server runs.
    Source,
}

/// One call of a script, ready to be sent.
#[derive(Clone, Debug)]
pub struct Call {
    script: &'static Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(script: &'static Script, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>) -> Call {
        debug_assert!(takes(script.keys, keys.len()), "keys of {}", script.name);
        debug_assert!(takes(script.args, args.len()), "arguments of {}", script.name);
        Call { script, keys, args }
    }

    pub fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns the first key, which decides the node.
    pub fn key(&self) -> &[u8] {
        &self.keys[0]
    }

    /// Returns the words of the request.
    pub fn words(&self, form: Form) -> Vec<Vec<u8>> {
        let (command, body) = match form {
            Form::Hash => ("EVALSHA", self.script.sha()),
            Form::Source => ("EVAL", self.script.source),
        };
        let mut words = vec![command.into(), body.into(), self.keys.len().to_string().into()];
        words.extend(self.keys.iter().chain(&self.args).cloned());
        words
    }

    /// Appends the request as RESP.
    pub fn encode(&self, form: Form, out: &mut Vec<u8>) {
        let words = self.words(form);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        encode_request(&words, out);
    }
}

fn takes(names: &[&str], count: usize) -> bool {
    match names.split_last() {
        Some((&MORE, fixed)) => count >= fixed.len(),
        _ => count == names.len(),
    }
}

/// Asks what may be done with a tag.
pub fn touch(run: &RunDigest, tag: &[u8]) -> Call {
    Call::new(
        &TOUCH,
        vec![keys::meta(tag), used(tag)],
        vec![bytes(run), tag.to_vec()],
    )
}

/// Announces writes to keys of a tag. The token is new.
///
/// The write may be sent behind it on the same connection without waiting for the reply. If the reply is an
/// error (NOSCRIPT, TRYAGAIN, ASK), the write may have run without a registration. Then the registration must
/// be sent again, within the lease, before the client gets the reply of its write.
pub fn register<'a>(tag: &[u8], token: Token, names: impl IntoIterator<Item = &'a [u8]>) -> Call {
    let mut args = vec![text(token), tag.to_vec()];
    args.extend(names.into_iter().map(<[u8]>::to_vec));
    Call::new(&REGISTER, vec![keys::dirty(tag), index(tag)], args)
}

pub fn begin(run: &RunDigest, tag: &[u8], token: Token) -> Call {
    let args = vec![bytes(run), text(token), tag.to_vec()];
    Call::new(&BEGIN, vec![keys::meta(tag), used(tag)], args)
}

pub fn install(run: &RunDigest, tag: &[u8], token: Token, chunk: &Chunk) -> Call {
    let mut names = vec![keys::meta(tag), keys::dirty(tag), index(tag), quiet(tag)];
    names.extend(chunk.rows.iter().map(|row| row.key.clone()));
    names.extend(chunk.tombstones.iter().cloned());
    let part = if chunk.part.is_last { "last" } else { "more" };
    let mut args = vec![
        bytes(run),
        text(token),
        tag.to_vec(),
        number(chunk.part.generation),
        number(chunk.part.saved.generation),
        number(chunk.part.saved.snap),
        part.into(),
        number(chunk.rows.len() as u64),
    ];
    for row in &chunk.rows {
        args.push(row.value.payload.clone());
        // Zero stands for none; a key that expired in 1970 may expire a millisecond later.
        let expires_at_ms = row.value.expires_at_ms.map_or(0, |at| at.max(1));
        args.push(expires_at_ms.to_string().into());
    }
    Call::new(&INSTALL, names, args)
}

pub fn snapshot(run: &RunDigest, tag: &[u8]) -> Call {
    let names = vec![keys::meta(tag), keys::dirty(tag), index(tag)];
    Call::new(&SNAPSHOT, names, vec![bytes(run), tag.to_vec()])
}

pub fn remove(run: &RunDigest, settled: &SavedKeys) -> Call {
    let tag = settled.tag.as_slice();
    let names = vec![keys::meta(tag), keys::dirty(tag), index(tag)];
    let mut args = vec![bytes(run), number(settled.generation), tag.to_vec()];
    for (key, token) in &settled.keys {
        args.push(key.clone());
        args.push(text(*token));
    }
    Call::new(&REMOVE, names, args)
}

pub fn mark(run: &RunDigest, tag: &[u8], token: Token) -> Call {
    let names = vec![keys::meta(tag), keys::dirty(tag)];
    Call::new(&MARK, names, vec![bytes(run), text(token)])
}

pub fn confirm(run: &RunDigest, tag: &[u8], token: Token, keys_of_tag: &[Vec<u8>]) -> Call {
    let mut names = vec![keys::meta(tag), keys::dirty(tag), used(tag), quiet(tag)];
    names.extend(keys_of_tag.iter().cloned());
    Call::new(&CONFIRM, names, vec![bytes(run), text(token), tag.to_vec()])
}

/// Parses the reply of [`touch`].
pub fn touched(answer: &[u8]) -> Option<Touched> {
    match answer {
        b"cold" => Some(Touched::Cold),
        b"suspect" => Some(Touched::Suspect),
        b"wait" => Some(Touched::Wait),
        b"granted" => Some(Touched::Granted),
        _ => None,
    }
}

/// Parses the reply of [`begin`].
pub fn begun(answer: &[u8]) -> Option<LoadStart> {
    match answer {
        b"begun" => Some(LoadStart::Begun),
        b"resident" => Some(LoadStart::Resident),
        _ => None,
    }
}

/// Parses the reply of [`install`].
pub fn installed(answer: &[u8]) -> Option<Installed> {
    match answer {
        b"lost" => Some(Installed::Lost),
        b"kept" => Some(Installed::Kept),
        b"put" => Some(Installed::Put),
        _ => None,
    }
}

/// The result of [`snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    Taken(TagCopy),
    /// The tag is missing, suspect or loading.
    Refused,
    /// A changed key has a type that cannot be stored, such as a module's.
    UnknownType {
        key: Vec<u8>,
        kind: String,
    },
}

/// Parses the reply of [`snapshot`].
pub fn copied(tag: &[u8], answer: &Frame) -> Option<Copied> {
    let items = reply::items(answer);
    match reply::bytes(items.first()?)? {
        b"missing" | b"suspect" | b"loading" => Some(Copied::Refused),
        b"taken" => taken(tag, items),
        _ => None,
    }
}

fn taken(tag: &[u8], items: &[Frame]) -> Option<Copied> {
    let [_, generation, snap, changes] = items else {
        return None;
    };
    let version = Version {
        generation: reply::unsigned(generation)?,
        snap: reply::unsigned(snap)?,
    };
    let (mut tokens, mut copies) = (Vec::new(), Vec::new());
    for change in reply::items(changes).chunks(5) {
        let [key, token, kind, payload, expires_at_ms] = change else {
            return None;
        };
        let key = reply::bytes(key)?.to_vec();
        let token = std::str::from_utf8(reply::bytes(token)?).ok()?;
        tokens.push(Token(u128::from_str_radix(token, 16).ok()?));
        let kind = reply::text(kind)?;
        let rest = match Kind::named(&kind) {
            Some(kind) => Some(StoredValue {
                kind,
                payload: reply::bytes(payload)?.to_vec(),
                expires_at_ms: Some(reply::int(expires_at_ms)?).filter(|at| *at >= 0),
            }),
            None if kind == "none" => None,
            None => return Some(Copied::UnknownType { key, kind }),
        };
        copies.push(Change { key, value: rest });
    }
    let snapshot = Snapshot {
        tag: tag.to_vec(),
        version,
        changes: copies,
        read_at_ms: None,
        written_at_ms: None,
    };
    Some(Copied::Taken(TagCopy { snapshot, tokens }))
}

/// Parses the reply of [`remove`]: whether the tag is clean now.
pub fn is_clean(answer: &[u8]) -> Option<bool> {
    match answer {
        b"clean" => Some(true),
        b"dirty" | b"missing" | b"suspect" | b"loading" | b"other" => Some(false),
        _ => None,
    }
}

/// Parses the reply of [`mark`].
pub fn is_marked(answer: &[u8]) -> Option<bool> {
    match answer {
        b"marked" => Some(true),
        b"dirty" | b"missing" | b"suspect" | b"loading" => Some(false),
        _ => None,
    }
}

/// Parses the reply of [`confirm`].
pub fn is_gone(answer: &[u8]) -> Option<bool> {
    match answer {
        b"gone" => Some(true),
        b"dirty" | b"missing" | b"suspect" | b"called off" => Some(false),
        _ => None,
    }
}

fn used(tag: &[u8]) -> Vec<u8> {
    keys::used(keys::slot_of(tag))
}

fn quiet(tag: &[u8]) -> Vec<u8> {
    keys::quiet(keys::slot_of(tag))
}

fn index(tag: &[u8]) -> Vec<u8> {
    keys::index(keys::slot_of(tag))
}

fn bytes(run: &RunDigest) -> Vec<u8> {
    run.as_bytes().to_vec()
}

fn text(token: Token) -> Vec<u8> {
    format!("{:032x}", token.0).into()
}

fn number(value: u64) -> Vec<u8> {
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a script names its keys and arguments; the names in Rust are the same.
    #[test]
    fn headers_name_the_keys_and_arguments_that_rust_passes() {
        for script in all() {
            let header: Vec<&str> = script
                .source
                .lines()
                .take_while(|line| line.starts_with("--"))
                .collect();
            let header = header.join("\n");
            for (kind, names) in [("KEYS", script.keys), ("ARGV", script.args)] {
                for (at, name) in names.iter().enumerate() {
                    let place = format!("{kind}[{}", at + 1);
                    let at = header
                        .find(&place)
                        .unwrap_or_else(|| panic!("{place} of {}", script.name));
                    if *name != MORE {
                        let rest = &header[at..];
                        let word = rest.split_whitespace().nth(1);
                        assert_eq!(word, Some(*name), "{place} of {}", script.name);
                    }
                }
            }
            assert!(header.contains("-- Returns "), "{}", script.name);
        }
    }

    #[test]
    fn a_request_names_its_keys_ahead_of_its_arguments() {
        let call = register(b"a", Token(10), [&b"{a}x"[..]]);
        let words = call.words(Form::Hash);
        assert_eq!(words[0], b"EVALSHA");
        assert_eq!(words[2], b"2");
        assert_eq!(words[3], b"_room:{a}:dirty");
        assert_eq!(
            words[5..],
            [
                b"0000000000000000000000000000000a".to_vec(),
                b"a".to_vec(),
                b"{a}x".to_vec()
            ]
        );
        let mut wire = Vec::new();
        call.encode(Form::Source, &mut wire);
        assert!(wire.starts_with(b"*8\r\n$4\r\nEVAL\r\n"));
    }
}
