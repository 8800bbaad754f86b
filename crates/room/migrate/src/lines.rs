//! The JSON lines of `nagaya room export --payload`, turned into an RDB file.

use std::io::{BufRead, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nagaya_rdb::{VERSION_READ_MAX, Writer};
use serde::Deserialize;

use crate::Error;

/// Longest line: a value of 512 MiB in base64, with its key and the value as JSON.
const LINE_MAX: u64 = 3 << 30;

#[derive(Deserialize)]
struct Line {
    key: Text,
    /// The database; 0 where there is none.
    #[serde(default)]
    db: u32,
    expires_at_ms: Option<i64>,
    payload: Option<String>,
}

/// Text, or bytes that are not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Bytes { base64: String },
}

/// Writes the keys of all lines into an RDB file and returns it. A line that cannot be read is an error with its
/// number; the file is of no use then.
pub fn lines_to_rdb<W: Write>(mut lines: impl BufRead, out: W) -> Result<W, Error> {
    let mut writer = Writer::new(out, VERSION_READ_MAX)?;
    let (mut text, mut db) = (Vec::new(), 0);
    for line in 1.. {
        text.clear();
        let read = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut text);
        if read.map_err(Error::Read)? == 0 {
            break;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        add(&mut writer, &text, &mut db).map_err(|what| Error::Line { line, what })?;
    }
    Ok(writer.finish()?)
}

fn add<W: Write>(writer: &mut Writer<W>, text: &[u8], db: &mut u32) -> Result<(), String> {
    let line: Line = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let decoded = |text: String| STANDARD.decode(text).map_err(|error| error.to_string());
    let key = match line.key {
        Text::Plain(text) => text.into_bytes(),
        Text::Bytes { base64 } => decoded(base64)?,
    };
    let payload = line
        .payload
        .ok_or("it has no payload; make the export with --payload")?;
    if line.db != *db {
        *db = line.db;
        // How many follow is only a hint.
        let begun = writer.database(line.db, 0, 0);
        begun.map_err(|error| error.to_string())?;
    }
    writer
        .key(&key, line.expires_at_ms, &decoded(payload)?)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_rdb::{Item, Limits, Reader, payload};

    fn line(key: &str, body: &[u8]) -> String {
        let mut payload = body.to_vec();
        payload::seal(&mut payload, 10);
        let payload = STANDARD.encode(payload);
        format!("{{\"key\":{key},\"tag\":\"x\",\"expires_at_ms\":5,\"value\":1,\"payload\":\"{payload}\"}}\n")
    }

    #[test]
    fn lines_become_a_file() {
        let lines = line("\"a\"", b"\x00\x01x") + "\n" + &line("{\"base64\":\"//4=\"}", b"\x00\x01y");
        let file = lines_to_rdb(lines.as_bytes(), Vec::new()).unwrap();
        let mut reader = Reader::new(file.as_slice(), Limits::default()).unwrap();
        let mut keys = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            let Item::Key(key) = item else { continue };
            assert_eq!(key.expires_at_ms, Some(5));
            keys.push(key.name);
        }
        assert_eq!(keys, [b"a".as_slice(), b"\xff\xfe"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let good = line("\"a\"", b"\x00\x01x");
        let damaged = good.replace("AAF4", "AAF5");
        for (bad, expected) in [
            (
                "{\"key\":\"b\",\"expires_at_ms\":null}\n",
                "line 2: it has no payload",
            ),
            ("{\"key\":\n", "line 2"),
            (damaged.as_str(), "checksum"),
        ] {
            let error = lines_to_rdb((good.clone() + bad).as_bytes(), Vec::new()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
