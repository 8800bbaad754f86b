//! Explains ids: their time, worker and sequence.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::layout::{Layout, Parts};
use crate::spelling::{parse_base62, parse_uuid};
use crate::utc;

/// An id and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub id: u64,
    pub parts: Parts,
    /// How long ago it was made; negative for the future.
    pub age_ms: i64,
}

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error(
        "{text:?} is not an id: a decimal number, a hexadecimal one after 0x, 11 digits and letters, or a UUID of \
         version 7"
    )]
    NotAnId { text: String },
    #[error(
        "{text} is not a UUID of this layout: a part of it is too large, or older than the layout's epoch"
    )]
    NotOurUuid { text: String },
    #[error("{id} is not an id of this layout: it has more bits than the layout")]
    OutsideOfLayout { id: u64 },
}

/// Reads an id: decimal digits, hexadecimal ones after `0x`, eleven digits and letters with a letter among them, or a
/// UUID.
pub fn parse_id(text: &str, layout: &Layout) -> Result<u64, DecodeError> {
    let trimmed = text.trim();
    if let Some(parts) = parse_uuid(trimmed) {
        return layout.encode(parts).ok_or_else(|| DecodeError::NotOurUuid {
            text: trimmed.to_owned(),
        });
    }
    let hexadecimal = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((trimmed, 10), |digits| (digits, 16));
    let number = match digits.bytes().next() {
        // `from_str_radix` also takes a plus sign.
        Some(b'+') | None => None,
        Some(_) => u64::from_str_radix(digits, radix).ok(),
    };
    let number = number.or_else(|| parse_base62(trimmed));
    number.ok_or_else(|| DecodeError::NotAnId {
        text: trimmed.chars().take(80).collect(),
    })
}

/// Takes an id apart.
pub fn decode(id: u64, layout: &Layout, now_ms: u64) -> Result<Decoded, DecodeError> {
    let parts = layout.decode(id).ok_or(DecodeError::OutsideOfLayout { id })?;
    let age_ms = i128::from(now_ms) - i128::from(parts.unix_ms);
    let age_ms = age_ms.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    Ok(Decoded { id, parts, age_ms })
}

/// Formats a table for people.
pub fn table(decoded: &[Decoded]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["ID", "TIME", "AGE", "WORKER", "SEQUENCE"]);
    for one in decoded {
        table.add_row([
            one.id.to_string(),
            utc::rfc3339(one.parts.unix_ms),
            age(one.age_ms),
            one.parts.worker.to_string(),
            one.parts.sequence.to_string(),
        ]);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Formats a list of objects; ids as strings too, because JavaScript rounds large numbers.
pub fn json(decoded: &[Decoded]) -> Value {
    decoded
        .iter()
        .map(|one| {
            json!({
                "id": one.id.to_string(),
                "number": one.id,
                "time": utc::rfc3339(one.parts.unix_ms),
                "unix_ms": one.parts.unix_ms,
                "age_ms": one.age_ms,
                "worker": one.parts.worker,
                "sequence": one.parts.sequence,
            })
        })
        .collect()
}

/// Formats a span in its two largest units: `3d 4h ago`, `in 250ms`.
fn age(age_ms: i64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let span_ms = age_ms.unsigned_abs();
    let largest = UNITS.iter().position(|(unit_ms, _)| span_ms >= *unit_ms);
    let span = match largest {
        None => format!("{span_ms}ms"),
        Some(at) => {
            let (unit_ms, name) = UNITS[at];
            let rest = span_ms % unit_ms;
            match UNITS.get(at + 1) {
                Some((lower_ms, lower)) if rest >= *lower_ms => {
                    format!("{}{name} {}{lower}", span_ms / unit_ms, rest / lower_ms)
                }
                _ => format!("{}{name}", span_ms / unit_ms),
            }
        }
    };
    if age_ms < 0 {
        format!("in {span}")
    } else {
        format!("{span} ago")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DEFAULT_EPOCH_MS;
    use crate::spelling::Spelling;

    fn sample() -> Decoded {
        let id = (374_652_301_042 << 22) | (5 << 12) | 3;
        decode(
            id,
            &Layout::default(),
            DEFAULT_EPOCH_MS + 374_652_301_042 + 90_061_000,
        )
        .unwrap()
    }

    #[test]
    fn a_table_explains_an_id() {
        let shown = table(&[sample()]);
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["ID", "TIME", "AGE", "WORKER", "SEQUENCE"]);
        assert_eq!(
            rows[1],
            [
                "1571405644869685251",
                "2026-11-15T06:05:01.042Z",
                "1d",
                "1h",
                "ago",
                "5",
                "3"
            ]
        );
    }

    #[test]
    fn json_has_the_id_as_string_and_number() {
        let value = json(&[sample()]);
        assert_eq!(value[0]["id"], "1571405644869685251");
        assert_eq!(value[0]["number"], 1_571_405_644_869_685_251_u64);
        assert_eq!(value[0]["worker"], 5);
        assert_eq!(value[0]["age_ms"], 90_061_000);
    }

    #[test]
    fn ids_are_read_in_every_spelling() {
        let layout = Layout::default();
        let parse = |text: &str| parse_id(text, &layout);
        assert_eq!(parse(" 42\n"), Ok(42));
        assert_eq!(parse("0x2A"), Ok(42));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
        // Eleven digits are a number.
        assert_eq!(parse("00000000042"), Ok(42));
        let id = sample().id;
        for spelling in [Spelling::Decimal, Spelling::Base62, Spelling::Uuid] {
            let text = spelling.write(&[id], &layout).remove(0);
            assert_eq!(parse(&text), Ok(id), "{text}");
        }
        for bad in ["", "+1", "-1", "1.0", "0x", "18446744073709551616", "12 3", "٣"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_uuid_of_another_layout_is_refused() {
        let text = "00000000-0001-7000-8000-000000000000";
        let error = parse_id(text, &Layout::default()).unwrap_err();
        assert_eq!(error, DecodeError::NotOurUuid { text: text.into() });
    }

    #[test]
    fn an_id_with_more_bits_than_the_layout_is_refused() {
        let error = decode(1 << 63, &Layout::default(), 0).unwrap_err();
        assert_eq!(error, DecodeError::OutsideOfLayout { id: 1 << 63 });
    }

    #[test]
    fn ages_are_told_in_two_units() {
        let check = |age_ms, words: &str| assert_eq!(age(age_ms), words);
        check(0, "0ms ago");
        check(999, "999ms ago");
        check(61_000, "1min 1s ago");
        check(3_600_000, "1h ago");
        check(-86_400_000 * 3 - 3_600_000 * 4, "in 3d 4h");
        check(i64::MIN, "in 106751991167d 7h");
    }
}
