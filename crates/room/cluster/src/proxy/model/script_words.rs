//! The words that are added to the calls of guarded scripts, and taken off again by their prologue.
//!
//! Behind the keys come for each tag the names of its list of dirty keys and of the index: declared like any other
//! key, so that a node refuses the whole call while the slot moves. Behind the arguments comes one word: which keys
//! the script may use, a fresh token and the tag. With several tags the letter is a capital one, and each tag has its
//! length before it. A call without keys gets that word alone.

use nagaya_connections::acl::check::ScriptKeys;
use nagaya_resp::{ArgVec, Args, parse_i64};
use nagaya_tiering::protocol::Token;
use nagaya_tiering::tag::tag_of;

use super::script_prologue::FUNCTION_MARK;
use crate::hot_tier::keys;

/// The place of the script, its hash or the function's name.
const NAME_AT: usize = 1;
/// The place of the number of keys in EVAL and FCALL.
const COUNT_AT: usize = 2;
const FIRST_KEY_AT: usize = COUNT_AT + 1;

/// What stands in the place of the allowed keys in a call without keys.
const NO_KEYS: u8 = b'-';
/// Keys that are added to a call for each of its tags.
const KEYS_PER_TAG: usize = 2;
/// Where the tag begins in the last word.
const TAG_AT: usize = 33;

/// Returns whether a command calls a script or a function.
pub(crate) fn is_call(name: &str) -> bool {
    matches!(
        name,
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro"
    )
}

/// Returns how many keys were added to a call as it was sent.
pub(crate) fn keys_added(sent: &Args<'_>) -> usize {
    let last = sent.len().checked_sub(1).and_then(|at| sent.get(at));
    let Some((letter, mut rest)) = last.and_then(|word| Some((*word.first()?, word.get(TAG_AT..)?))) else {
        return 0;
    };
    if !letter.is_ascii_uppercase() {
        return KEYS_PER_TAG;
    }
    let mut tags = 0;
    while let Some(colon) = rest.iter().position(|byte| *byte == b':') {
        let length = parse_i64(&rest[..colon]).and_then(|length| usize::try_from(length).ok());
        let Some(next) = length.and_then(|length| rest.get(colon + 1 + length..)) else {
            break;
        };
        (tags, rest) = (tags + 1, next);
    }
    KEYS_PER_TAG * tags
}

/// Returns the tags of a call's keys; fails with the text of an error reply.
pub(crate) fn tags_of_call<'a>(args: &Args<'a>) -> Result<Vec<&'a [u8]>, &'static str> {
    let count = args.get(COUNT_AT).and_then(parse_i64);
    let count = count.ok_or("ERR value is not an integer or out of range")?;
    let given = args.len() - FIRST_KEY_AT;
    match usize::try_from(count) {
        Err(_) => Err("ERR Number of keys can't be negative"),
        Ok(count) if count > given => Err("ERR Number of keys can't be greater than number of args"),
        Ok(count) => {
            let mut tags = Vec::new();
            for tag in (FIRST_KEY_AT..FIRST_KEY_AT + count).filter_map(|at| args.get(at).map(tag_of)) {
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
            }
            Ok(tags)
        }
    }
}

/// Adds the words to a call whose keys have these tags.
pub(crate) fn add(words: &mut Vec<Vec<u8>>, tags: &[&[u8]], token: Token, allowed: ScriptKeys) {
    if tags.is_empty() {
        words.push(vec![NO_KEYS]);
        return;
    }
    let Some(count) = words.get(COUNT_AT).and_then(|count| parse_i64(count)) else {
        return;
    };
    let end = FIRST_KEY_AT + count as usize;
    words[COUNT_AT] = (count as usize + KEYS_PER_TAG * tags.len())
        .to_string()
        .into_bytes();
    let added = tags
        .iter()
        .flat_map(|tag| [keys::dirty(tag), keys::index(keys::slot_of(tag))]);
    words.splice(end..end, added);
    let letter = char::from(letter_of(allowed));
    let word = match tags {
        [tag] => [format!("{letter}{:032x}", token.0).as_bytes(), tag].concat(),
        _ => {
            let mut word = format!("{}{:032x}", letter.to_ascii_uppercase(), token.0).into_bytes();
            for tag in tags {
                word.extend_from_slice(format!("{}:", tag.len()).as_bytes());
                word.extend_from_slice(tag);
            }
            word
        }
    };
    words.push(word);
}

/// Returns whether a call was sent for just these keys, none for a call without keys.
pub(crate) fn allows(sent: &Args<'_>, allowed: Option<ScriptKeys>) -> bool {
    let last = sent.len().checked_sub(1).and_then(|at| sent.get(at));
    let letter = last.and_then(|word| word.first()).copied();
    letter.map(|letter| letter.to_ascii_lowercase()) == Some(allowed.map_or(NO_KEYS, letter_of))
}

fn letter_of(allowed: ScriptKeys) -> u8 {
    match allowed {
        ScriptKeys::Declared => b'd',
        ScriptKeys::OfTag => b't',
        ScriptKeys::All => b'a',
    }
}

/// Names a function as the nodes know it.
pub(crate) fn mark_function(words: &mut [Vec<u8>]) {
    if let Some(name) = words.get_mut(NAME_AT) {
        *name = [FUNCTION_MARK.as_bytes(), name].concat();
    }
}

/// Returns a call without the words that were added to it, and with the name that its client gave.
pub(crate) fn without(args: &Args<'_>) -> ArgVec {
    let count = args.get(COUNT_AT).and_then(parse_i64).unwrap_or(0);
    let keys_end = FIRST_KEY_AT + usize::try_from(count).unwrap_or(0);
    let added = keys_added(args).min(keys_end - FIRST_KEY_AT);
    let is_added = |at: usize| at + 1 == args.len() || (keys_end - added..keys_end).contains(&at);
    let kept = (count - added as i64).max(0).to_string();
    let words = args.iter().enumerate().filter(|(at, _)| !is_added(*at));
    let is_function = args
        .get(0)
        .is_some_and(|name| name.to_ascii_lowercase().starts_with(b"fcall"));
    let asked = |at: usize, word: &'_ [u8]| match at {
        NAME_AT if is_function => word
            .strip_prefix(FUNCTION_MARK.as_bytes())
            .unwrap_or(word)
            .to_vec(),
        COUNT_AT => kept.as_bytes().to_vec(),
        _ => word.to_vec(),
    };
    let words: Vec<Vec<u8>> = words.map(|(at, word)| asked(at, word)).collect();
    words.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[track_caller]
    fn check(line: &str, added: &str) {
        let asked: ArgVec = line.split(' ').collect();
        let mut sent = words(line);
        let tags = tags_of_call(&asked.as_args()).unwrap();
        add(&mut sent, &tags, Token(10), ScriptKeys::All);
        if line.starts_with("FCALL") {
            mark_function(&mut sent);
        }
        assert_eq!(sent, words(added));
        let sent: ArgVec = sent.iter().map(Vec::as_slice).collect();
        let asked: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(
            without(&sent.as_args()).as_args().iter().collect::<Vec<_>>(),
            asked
        );
    }

    #[test]
    fn words_are_added_behind_keys_and_arguments_and_taken_off_again() {
        let index = String::from_utf8(keys::index(keys::slot_of(b"t"))).unwrap();
        let word = format!("a{:032x}t", 10);
        check("EVAL s 0 x", "EVAL s 0 x -");
        check(
            "EVAL s 1 {t}a x y",
            &format!("EVAL s 3 {{t}}a _room:{{t}}:dirty {index} x y {word}"),
        );
        check(
            "FCALL f 2 {t}a {t}b",
            &format!("FCALL _room_f 4 {{t}}a {{t}}b _room:{{t}}:dirty {index} {word}"),
        );
        let other = String::from_utf8(keys::index(keys::slot_of(b"u7:"))).unwrap();
        let word = format!("A{:032x}1:t3:u7:", 10);
        check(
            "EVAL s 3 {t}a {u7:}b {t}c x",
            &format!(
                "EVAL s 7 {{t}}a {{u7:}}b {{t}}c _room:{{t}}:dirty {index} _room:{{u7:}}:dirty {other} x {word}"
            ),
        );
    }

    #[test]
    fn a_wrong_number_of_keys_is_refused_as_a_server_does() {
        let refused = |line: &str| {
            let args: ArgVec = line.split(' ').collect();
            tags_of_call(&args.as_args()).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused("EVAL s x"), "ERR value is not an integer or out of range");
        assert_eq!(refused("EVAL s -1"), "ERR Number of keys can't be negative");
        assert_eq!(
            refused("EVAL s 2 a"),
            "ERR Number of keys can't be greater than number of args"
        );
    }
}
