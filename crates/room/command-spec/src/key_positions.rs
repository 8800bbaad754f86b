//! Finds the keys among a command's arguments, from the table alone.

use nagaya_resp::Args;

use crate::spec::CommandSpec;
use crate::spec::{Begin, Find, KeyFlags, KeySpec, NOT_KEY, VARIABLE_FLAGS};

/// Why the keys of a request cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeys;

/// Calls `visit` with the position and flags of every key.
pub fn each_key(
    spec: &CommandSpec,
    args: &Args<'_>,
    mut visit: impl FnMut(usize, KeyFlags),
) -> Result<(), InvalidKeys> {
    for key_spec in spec.keys {
        if key_spec.flags.has(NOT_KEY) {
            continue;
        }
        match spec.key_use {
            Some(key_use) if key_spec.flags.has(VARIABLE_FLAGS) => {
                each_of_spec(key_spec, args, &mut |at, _| visit(at, key_use(args)))?;
            }
            _ => each_of_spec(key_spec, args, &mut visit)?,
        }
    }
    if let Some(more_keys) = spec.more_keys {
        // The spec that could not say where its keys are says what is done to them.
        let unplaced = spec.keys.iter().rfind(|spec| spec.begin == Begin::Unknown);
        let flags = unplaced
            .or(spec.keys.first())
            .map_or(KeyFlags(0), |spec| spec.flags);
        more_keys(args).into_iter().for_each(|at| visit(at, flags));
    }
    Ok(())
}

fn each_of_spec(
    spec: &KeySpec,
    args: &Args<'_>,
    visit: &mut impl FnMut(usize, KeyFlags),
) -> Result<(), InvalidKeys> {
    let count = args.len();
    let first = match spec.begin {
        Begin::Index(at) => at,
        Begin::Keyword(word, from) => match find_word(args, word, from) {
            Some(at) => at + 1,
            None => return Ok(()),
        },
        Begin::Unknown => return Ok(()),
    };
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let last = if last >= 0 {
                first + last as usize
            } else if limit > 1 && first < count {
                // The keys are the first part of what is left; the rest goes with them.
                first + ((count - first) / limit).saturating_sub(1)
            } else {
                match (count as i64 + i64::from(last)).try_into() {
                    Ok(last) => last,
                    Err(_) => return Err(InvalidKeys),
                }
            };
            (first, last, step)
        }
        Find::KeyNum {
            count_at,
            first: offset,
            step,
        } => {
            let text = args.get(first + count_at).ok_or(InvalidKeys)?;
            let number = nagaya_resp::parse_i64(text).ok_or(InvalidKeys)?;
            let number = usize::try_from(number).map_err(|_| InvalidKeys)?;
            if number == 0 {
                return Ok(());
            }
            if number > count {
                return Err(InvalidKeys);
            }
            (first + offset, first + offset + (number - 1) * step, step)
        }
        Find::Unknown => return Ok(()),
    };
    if last >= count {
        return Err(InvalidKeys);
    }
    (first..=last).step_by(step).for_each(|at| visit(at, spec.flags));
    Ok(())
}

fn find_word(args: &Args<'_>, word: &str, from: i32) -> Option<usize> {
    let is_word = |at: &usize| args[*at].eq_ignore_ascii_case(word.as_bytes());
    if from >= 0 {
        (from as usize..args.len()).find(is_word)
    } else {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(is_word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{RO, RW, counted_keys, key, key_after, keys_to};
    use nagaya_resp::ArgVec;

    #[track_caller]
    fn check(specs: &'static [KeySpec], request: &str, expected: &[usize]) {
        let owned: ArgVec = request.split(' ').map(str::as_bytes).collect();
        let spec = CommandSpec::new("X", -1).keys(specs);
        let mut found = Vec::new();
        each_key(&spec, &owned.as_args(), |at, _| found.push(at)).unwrap();
        assert_eq!(found, expected, "{request}");
    }

    #[test]
    fn every_kind_of_key_spec_finds_its_keys() {
        const KEY: KeySpec = key(1, RO);
        const PAIRS: KeySpec = keys_to(1, -1, 2, RW);
        const ALL_BUT_LAST: KeySpec = keys_to(1, -2, 1, RW);
        const COUNTED: KeySpec = counted_keys(1, RO);
        const COUNTED_LATER: KeySpec = counted_keys(2, RO);
        const STORE: KeySpec = key_after("STORE", 6, RW);
        check(&[KEY], "get a", &[1]);
        check(&[PAIRS], "mset a 1 b 2", &[1, 3]);
        check(&[ALL_BUT_LAST], "blpop a b 0", &[1, 2]);
        check(&[COUNTED], "zunion 2 a b weights 1 2", &[2, 3]);
        check(&[KEY, COUNTED_LATER], "zunionstore d 2 a b", &[1, 3, 4]);
        check(&[KEY, STORE], "georadius k 1 2 3 m store d", &[1, 7]);
        const STREAMS: KeySpec = KeySpec {
            flags: RO,
            begin: Begin::Keyword("STREAMS", 1),
            find: Find::Range {
                last: -1,
                step: 1,
                limit: 2,
            },
        };
        check(&[STREAMS], "xread count 2 streams a b 0 0", &[4, 5]);
    }

    #[test]
    fn a_count_beyond_the_arguments_is_refused() {
        let owned: ArgVec = ["zunion", "9", "a"].iter().map(|arg| arg.as_bytes()).collect();
        const COUNTED: &[KeySpec] = &[counted_keys(1, RO)];
        let spec = CommandSpec::new("X", -1).keys(COUNTED);
        assert!(each_key(&spec, &owned.as_args(), |_, _| ()).is_err());
    }
}
