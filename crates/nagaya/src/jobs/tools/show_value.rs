//! JSON from the server as people read it.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// How much of an error is shown in a table, in characters.
const SHORT_CHARS: usize = 60;

/// An aligned table without lines.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.to_vec());
    table.add_rows(rows);
    let text = table.trim_fmt();
    // Every cell begins with a blank, also the first.
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned() + "\n");
    lines.collect()
}

/// A value without its quotes; nothing for null.
pub(super) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// One line, cut where it gets long.
pub(super) fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHORT_CHARS) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

/// A time from the API, without fractions of a second.
pub(crate) fn time(value: Option<&Value>) -> String {
    match value {
        Some(Value::Number(ms)) => {
            let at = ms
                .as_i64()
                .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
            at.map(|at| format!("{at:.0}")).unwrap_or_default()
        }
        Some(Value::String(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(at) => format!("{at:.0}"),
            Err(_) => text.clone(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_without_quotes_and_long_ones_cut() {
        assert_eq!(plain(Some(&json!("a"))), "a");
        assert_eq!(plain(Some(&json!({"a": 1}))), r#"{"a":1}"#);
        assert_eq!(plain(Some(&Value::Null)), "");
        assert_eq!(short("one\ntwo"), "one");
        assert_eq!(short(&"ä".repeat(80)), "ä".repeat(60) + "...");
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(time(Some(&json!(1_500))), "1970-01-01T00:00:01Z");
        assert_eq!(
            time(Some(&json!("1970-01-01T00:00:01.999Z"))),
            "1970-01-01T00:00:01Z"
        );
        assert_eq!(time(None), "");
    }

    #[test]
    fn tables_are_aligned() {
        let text = table(&["ID", "STATE"], vec![vec!["17".into(), "waiting".into()]]);
        assert_eq!(text, "ID  STATE\n17  waiting\n");
    }
}
