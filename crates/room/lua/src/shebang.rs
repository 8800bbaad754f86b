//! The first line of a script or library: `#!lua flags=...` or `#!lua name=...`.

use crate::Error;

/// What the first line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shebang {
    /// The engine named after `#!`, empty for a script without a first line of this kind.
    pub engine: String,
    /// The library's name.
    pub name: Option<String>,
    /// Flags of a script. Always empty for libraries, whose functions carry their own.
    pub flags: Vec<ScriptFlag>,
    /// Where the code starts: at the line feed that ends the first line, so that line numbers stay true.
    pub body_offset: usize,
}

/// What a script promises or asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScriptFlag {
    /// It never writes.
    NoWrites,
    /// It may run when memory is over the limit.
    AllowOom,
    /// It may run on a replica that lost its master.
    AllowStale,
    /// It refuses to run in a cluster.
    NoCluster,
    /// Its keys may live in several slots.
    AllowCrossSlotKeys,
}

impl ScriptFlag {
    const ALL: [ScriptFlag; 5] = [
        ScriptFlag::NoWrites,
        ScriptFlag::AllowOom,
        ScriptFlag::AllowStale,
        ScriptFlag::NoCluster,
        ScriptFlag::AllowCrossSlotKeys,
    ];

    /// Returns the flag's name in scripts and in `FUNCTION LIST`.
    pub fn name(self) -> &'static str {
        match self {
            ScriptFlag::NoWrites => "no-writes",
            ScriptFlag::AllowOom => "allow-oom",
            ScriptFlag::AllowStale => "allow-stale",
            ScriptFlag::NoCluster => "no-cluster",
            ScriptFlag::AllowCrossSlotKeys => "allow-cross-slot-keys",
        }
    }

    fn from_name(name: &[u8]) -> Option<ScriptFlag> {
        ScriptFlag::ALL
            .into_iter()
            .find(|flag| flag.name().as_bytes() == name)
    }

    pub(crate) fn from_name_any_case(name: &[u8]) -> Option<ScriptFlag> {
        ScriptFlag::ALL
            .into_iter()
            .find(|flag| flag.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Reads the first line of a script for EVAL. A script without one is fine and has an empty engine.
pub fn parse_shebang(body: &[u8]) -> Result<Shebang, Error> {
    if !body.starts_with(b"#!") {
        return Ok(Shebang::default());
    }
    let refuse = |text: String| Err(Error::Shebang(text));
    let Some(end) = line_end(body) else {
        return refuse("Invalid script shebang".to_owned());
    };
    let parts = split_arguments(&body[..end]).unwrap_or_default();
    let Some((engine, options)) = parts.split_first() else {
        return refuse("Invalid engine in script shebang".to_owned());
    };
    if engine != b"#!lua" {
        return refuse(format!(
            "Unexpected engine in script shebang: {}",
            text_of(engine)
        ));
    }
    let mut flags = Vec::new();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return refuse(format!("Unknown lua shebang option: {}", text_of(option)));
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            let Some(flag) = ScriptFlag::from_name(name) else {
                return refuse(format!("Unexpected flag in script shebang: {}", text_of(name)));
            };
            flags.push(flag);
        }
    }
    Ok(Shebang {
        engine: "lua".to_owned(),
        name: None,
        flags,
        body_offset: end,
    })
}

/// Reads the first line of a library for FUNCTION LOAD, which must have one with a name.
pub fn parse_library_shebang(code: &[u8]) -> Result<Shebang, Error> {
    let refuse = |text: &str| Err(Error::Shebang(text.to_owned()));
    if !code.starts_with(b"#!") {
        return refuse("Missing library metadata");
    }
    let Some(end) = line_end(code) else {
        return refuse("Invalid library metadata");
    };
    let parts = split_arguments(&code[..end]).unwrap_or_default();
    let Some((engine, options)) = parts.split_first() else {
        return refuse("Invalid library metadata");
    };
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(text_of(value)).is_some() {
                    return refuse("Invalid metadata value, name argument was given multiple times");
                }
            }
            _ => return refuse(&format!("Invalid metadata value given: {}", text_of(option))),
        }
    }
    let Some(name) = name else {
        return refuse("Library name was not given");
    };
    if !is_valid_name(name.as_bytes()) {
        return refuse(NAME_RULE);
    }
    let engine = text_of(engine.get(2..).unwrap_or_default());
    if !engine.eq_ignore_ascii_case("lua") {
        return refuse(&format!("Engine '{engine}' not found"));
    }
    Ok(Shebang {
        engine,
        name: Some(name),
        flags: Vec::new(),
        body_offset: end,
    })
}

/// Redis uses this text for libraries and for functions.
pub(crate) const NAME_RULE: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Redis looks for the line feed in a C string, so a zero byte before it hides it.
fn line_end(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| matches!(byte, b'\n' | 0))?;
    (text[end] == b'\n').then_some(end)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits a line as the Redis command line does: blanks separate, quotes and backslashes work. `None` when a quote
/// stays open or is followed by something other than a blank.
fn split_arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(parts);
        }
        let mut part = Vec::new();
        rest = take_argument(rest, &mut part)?;
        parts.push(part);
    }
}

fn take_argument<'a>(mut rest: &'a [u8], part: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [b' ' | b'\n' | b'\r' | b'\t', tail @ ..] => return Some(tail),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                let after = take_quoted(tail, *quote, part)?;
                return match after.first() {
                    Some(byte) if !byte.is_ascii_whitespace() => None,
                    _ => Some(after),
                };
            }
            [byte, tail @ ..] => {
                part.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_quoted<'a>(mut rest: &'a [u8], quote: u8, part: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] => return None,
            [byte, tail @ ..] if *byte == quote => return Some(tail),
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => {
                part.push(b'\'');
                tail
            }
            [b'\\', b'x', high, low, tail @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                part.push(digit(*high) * 16 + digit(*low));
                tail
            }
            [b'\\', byte, tail @ ..] if quote == b'"' => {
                part.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                part.push(*byte);
                tail
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(result: Result<Shebang, Error>) -> String {
        result.expect_err("the line must be refused").to_string()
    }

    #[test]
    fn a_script_without_a_first_line_is_taken_as_it_is() {
        assert_eq!(parse_shebang(b"return 1"), Ok(Shebang::default()));
    }

    #[test]
    fn flags_are_read_and_the_line_feed_is_kept() {
        let shebang = parse_shebang(b"#!lua flags=no-writes,allow-oom\nreturn 1").expect("valid");
        assert_eq!(shebang.flags, [ScriptFlag::NoWrites, ScriptFlag::AllowOom]);
        assert_eq!(shebang.body_offset, 31);
        assert!(
            parse_shebang(b"#!lua flags=\nreturn 1")
                .expect("valid")
                .flags
                .is_empty()
        );
    }

    #[test]
    fn bad_script_lines_get_the_texts_of_redis() {
        assert_eq!(refusal(parse_shebang(b"#!lua")), "Invalid script shebang");
        assert_eq!(
            refusal(parse_shebang(b"#!\n")),
            "Unexpected engine in script shebang: #!"
        );
        assert_eq!(
            refusal(parse_shebang(b"#!not-lua\n")),
            "Unexpected engine in script shebang: #!not-lua"
        );
        assert_eq!(
            refusal(parse_shebang(b"#!lua badger=data\n")),
            "Unknown lua shebang option: badger=data"
        );
        assert_eq!(
            refusal(parse_shebang(b"#!lua flags=bad-flag\n")),
            "Unexpected flag in script shebang: bad-flag"
        );
    }

    #[test]
    fn library_lines_need_an_engine_and_one_name() {
        assert_eq!(
            parse_library_shebang(b"#!LUA name=\"foo\"\nx")
                .expect("valid")
                .name
                .as_deref(),
            Some("foo")
        );
        assert_eq!(
            refusal(parse_library_shebang(b"redis.x()")),
            "Missing library metadata"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!lua name=a")),
            "Invalid library metadata"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!lua\n")),
            "Library name was not given"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#! name=test\n")),
            "Engine '' not found"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!bad name=test\n")),
            "Engine 'bad' not found"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!lua name=bad\0foo\n")),
            "Invalid library metadata"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!lua name=test foo=bar\n")),
            "Invalid metadata value given: foo=bar"
        );
        assert_eq!(
            refusal(parse_library_shebang(b"#!lua name=a name=b\n")),
            "Invalid metadata value, name argument was given multiple times"
        );
        assert_eq!(refusal(parse_library_shebang(b"#!lua name=a-b\n")), NAME_RULE);
    }
}
