//! The words that are added to the calls of guarded scripts, and taken off again by their prologue.
//!
//! Behind the keys come the names of the tag's list of dirty keys and of the index: declared like any other key,
//! so that a node refuses the whole call while the slot moves. Behind the arguments comes one word: which keys
//! the script may use, a fresh token and the tag. A call without keys gets that word alone.

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
/// Keys that are added to a call with keys.
pub(crate) const KEYS_ADDED: usize = 2;

/// Returns whether a command calls a script or a function.
pub(crate) fn is_call(name: &str) -> bool {
    matches!(
        name,
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro"
    )
}

/// Returns the tag of a call's keys, none for a call without keys; fails with the text of an error reply.
pub(crate) fn tag_of_call<'a>(args: &Args<'a>) -> Result<Option<&'a [u8]>, &'static str> {
    let count = args.get(COUNT_AT).and_then(parse_i64);
    let count = count.ok_or("ERR value is not an integer or out of range")?;
    let given = args.len() - FIRST_KEY_AT;
    match usize::try_from(count) {
        Err(_) => Err("ERR Number of keys can't be negative"),
        Ok(count) if count > given => Err("ERR Number of keys can't be greater than number of args"),
        Ok(0) => Ok(None),
        Ok(_) => Ok(args.get(FIRST_KEY_AT).map(tag_of)),
    }
}

/// Adds the words to a call whose keys have this tag.
pub(crate) fn add(words: &mut Vec<Vec<u8>>, tag: Option<&[u8]>, token: Token, allowed: ScriptKeys) {
    let Some(tag) = tag else {
        words.push(vec![NO_KEYS]);
        return;
    };
    let Some(count) = words.get(COUNT_AT).and_then(|count| parse_i64(count)) else {
        return;
    };
    let end = FIRST_KEY_AT + count as usize;
    words[COUNT_AT] = (count + KEYS_ADDED as i64).to_string().into_bytes();
    words.splice(end..end, [keys::dirty(tag), keys::index(keys::slot_of(tag))]);
    let word = format!("{}{:032x}", char::from(letter_of(allowed)), token.0);
    words.push([word.as_bytes(), tag].concat());
}

/// Returns whether a call was sent for just these keys, none for a call without keys.
pub(crate) fn allows(sent: &Args<'_>, allowed: Option<ScriptKeys>) -> bool {
    let last = sent.len().checked_sub(1).and_then(|at| sent.get(at));
    let letter = last.and_then(|word| word.first()).copied();
    letter == Some(allowed.map_or(NO_KEYS, letter_of))
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
    let is_added = |at: usize| at + 1 == args.len() || count >= 2 && (keys_end - 2..keys_end).contains(&at);
    let kept = (count - 2).max(0).to_string();
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
        let tag = tag_of_call(&asked.as_args()).unwrap();
        add(&mut sent, tag, Token(10), ScriptKeys::All);
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
    }

    #[test]
    fn a_wrong_number_of_keys_is_refused_as_a_server_does() {
        let refused = |line: &str| {
            let args: ArgVec = line.split(' ').collect();
            tag_of_call(&args.as_args()).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused("EVAL s x"), "ERR value is not an integer or out of range");
        assert_eq!(refused("EVAL s -1"), "ERR Number of keys can't be negative");
        assert_eq!(
            refused("EVAL s 2 a"),
            "ERR Number of keys can't be greater than number of args"
        );
    }
}
