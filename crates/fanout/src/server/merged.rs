//! The answers of a call in one reply: as JSON, or as the parts of a `multipart/mixed`.

use std::fmt::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::gather::{Arrived, Gathered};

/// JSON that is nested deeper is shown as text: readers of the whole reply may not follow it.
const DEPTH_MAX: usize = 64;
/// What stands for a body that is left out.
const LEFT_OUT: &str = ",\"left_out\":true";
/// What of an endpoint's name can stand in a header as it is.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A call when its wait is over.
pub(super) struct Whole {
    pub(super) id: Arc<str>,
    pub(super) names: Vec<Arc<str>>,
    pub(super) gathered: Gathered,
    pub(super) is_met: bool,
    pub(super) ms: u64,
}

impl Whole {
    /// Returns the endpoints that have not answered.
    pub(super) fn late(&self) -> Vec<&str> {
        late(&self.names, &self.gathered)
    }

    /// Returns everything but the results.
    pub(super) fn summary(&self) -> Value {
        let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        let mut summary = json!({
            "request_id": &*self.id,
            "ms": self.ms,
            "complete": self.gathered.is_complete(),
            "met": self.is_met,
            "endpoints": names,
            "late": self.late(),
        });
        if let Some(best) = self.gathered.best() {
            summary["best"] = best.to_json();
        }
        summary
    }

    fn answer(&self, name: &Arc<str>) -> Option<&Arrived> {
        self.gathered.answers.iter().find(|answer| answer.name == *name)
    }

    /// Returns one JSON document with bodies of `room` bytes at most; those beyond it are left out.
    pub(super) fn json(&self, room: usize) -> String {
        let mut text = self.summary().to_string();
        text.pop();
        text.push_str(",\"results\":{");
        let mut separator = "";
        for (name, answer) in self
            .names
            .iter()
            .filter_map(|name| Some((name, self.answer(name)?)))
        {
            let shown = show(answer, room.saturating_sub(text.len()));
            let name = quoted(name);
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}{name}:{shown}");
            separator = ",";
        }
        text.push_str("}}\n");
        text
    }

    /// Returns a part with everything but the bodies, and a part for each body, up to `room` bytes.
    pub(super) fn multipart(&self, boundary: &str, room: usize) -> Vec<u8> {
        let mut summary = self.summary();
        let mut parts = Vec::new();
        let mut used = 0;
        for answer in self.names.iter().filter_map(|name| self.answer(name)) {
            let body = answer.body.as_ref().filter(|body| used + body.len() <= room);
            used += body.map_or(0, Bytes::len);
            let mut shown = serde_json::to_value(&answer.outcome).unwrap_or_default();
            if answer.is_left_out || (body.is_none() && answer.body.is_some()) {
                shown["left_out"] = Value::Bool(true);
            }
            summary["results"][&*answer.name] = shown;
            parts.extend(body.map(|body| (answer, body)));
        }
        let mut bytes = Vec::with_capacity(used + 1024);
        let summary = format!("{summary}\n");
        let head = format!("--{boundary}\r\ncontent-type: application/json; charset=utf-8\r\n");
        let head = format!("{head}content-length: {}\r\n\r\n{summary}\r\n", summary.len());
        bytes.extend_from_slice(head.as_bytes());
        for (answer, body) in parts {
            let name = utf8_percent_encode(&answer.name, NAME);
            let status = answer.outcome.status.unwrap_or_default();
            let head = format!(
                "--{boundary}\r\nnagaya-endpoint: {name}\r\nnagaya-status: {status}\r\ncontent-type: "
            );
            bytes.extend_from_slice(head.as_bytes());
            let kind = answer.kind.as_ref().map(http::HeaderValue::as_bytes);
            bytes.extend_from_slice(kind.unwrap_or(b"application/octet-stream"));
            bytes.extend_from_slice(format!("\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
            bytes.extend_from_slice(body);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        bytes
    }
}

/// Returns the names that have no answer, in their order.
pub(super) fn late<'a>(names: &'a [Arc<str>], gathered: &Gathered) -> Vec<&'a str> {
    let is_late = |name: &&Arc<str>| !gathered.answers.iter().any(|answer| answer.name == **name);
    names.iter().filter(is_late).map(|name| &**name).collect()
}

/// Shows one answer on one line: its outcome, and its body as `json`, `body` or `body_base64`.
pub(super) fn show(answer: &Arrived, room: usize) -> String {
    let mut text = answer.outcome.to_json();
    text.pop();
    match &answer.body {
        None if answer.is_left_out => text.push_str(LEFT_OUT),
        None => (),
        Some(body) if body.len() > room => text.push_str(LEFT_OUT),
        Some(body) => {
            let shown = show_body(body);
            text.push_str(if shown.len() > room { LEFT_OUT } else { &shown });
        }
    }
    text.push('}');
    text
}

fn show_body(body: &[u8]) -> String {
    if let Some(json) = as_json(body) {
        // Between its values JSON may have line breaks, which would end a line of a stream of events; in texts it has
        // none.
        return format!(",\"json\":{}", json.replace(['\n', '\r'], " "));
    }
    match std::str::from_utf8(body) {
        Ok(text) => format!(",\"body\":{}", quoted(text)),
        Err(_) => format!(",\"body_base64\":\"{}\"", STANDARD.encode(body)),
    }
}

/// Returns a body that is a JSON object or list.
fn as_json(body: &[u8]) -> Option<&str> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    if !matches!(first, b'{' | b'[') || depth(body) > DEPTH_MAX {
        return None;
    }
    let json: &RawValue = serde_json::from_slice(body).ok()?;
    Some(json.get())
}

/// Returns how deep a JSON text is nested.
fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => (),
        }
    }
    deepest
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;
    use crate::outcome::{Outcome, State};
    use crate::preferences::Enough;

    fn arrived(name: &str, body: &[u8]) -> Arrived {
        let mut outcome = Outcome::new(State::Ok, Duration::from_millis(3));
        outcome.status = Some(200);
        let mut arrived = Arrived::without_body(&name.into(), outcome);
        arrived.body = Some(Bytes::copy_from_slice(body));
        arrived
    }

    fn whole(answers: &[(&str, &[u8])]) -> Whole {
        let mut gathered = Gathered::new(answers.len() + 1, Enough::All, None);
        for (name, body) in answers {
            gathered.add(arrived(name, body), None);
        }
        let names = answers.iter().map(|(name, _)| *name).chain(["slow"]);
        Whole {
            id: "17".into(),
            names: names.map(Arc::from).collect(),
            gathered,
            is_met: false,
            ms: 9,
        }
    }

    fn shown(body: &[u8]) -> Value {
        serde_json::from_str(&show(&arrived("a", body), usize::MAX)).unwrap()
    }

    #[test]
    fn objects_and_lists_are_merged_and_other_bodies_are_texts() {
        assert_eq!(shown(b" {\"a\":\n[1]} \n")["json"], json!({"a": [1]}));
        assert_eq!(shown(b"[]")["json"], json!([]));
        for text in ["1", "\"x\"", "{\"a\"", "{} {}", "", "[\"\n\"]", "{\"a\":1,}"] {
            assert_eq!(shown(text.as_bytes())["body"], text, "{text}");
        }
        assert_eq!(shown(b"\xff")["body_base64"], "/w==");
        assert!(shown(b"{\"a\":\"\xff\"}").get("json").is_none());
        let deep = [vec![b'['; 65], vec![b']'; 65]].concat();
        assert!(shown(&deep).get("body").is_some());
        assert!(shown(&deep[1..129]).get("json").is_some());
        assert!(!show(&arrived("a", b"{\r\n}"), 99).contains(['\n', '\r']));
    }

    #[test]
    fn everything_is_in_one_document_and_what_is_late_is_named() {
        let whole: Value =
            serde_json::from_str(&whole(&[("a", b"{\"x\":1}"), ("b\"", b"t")]).json(999)).unwrap();
        assert_eq!(whole["results"]["a"]["json"]["x"], 1);
        assert_eq!(whole["results"]["b\""]["body"], "t");
        assert_eq!(
            (&whole["late"], &whole["complete"]),
            (&json!(["slow"]), &json!(false))
        );
        assert_eq!(whole["results"]["a"]["state"], "ok");
    }

    #[test]
    fn bodies_beyond_the_room_are_left_out() {
        let large = [b'x'; 500];
        let text = whole(&[("a", &large), ("b", &large), ("c", b"small")]).json(1000);
        let whole: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(whole["results"]["a"]["body"].as_str().unwrap().len(), 500);
        assert_eq!(whole["results"]["b"]["left_out"], true);
        assert_eq!(whole["results"]["c"]["body"], "small");
        // Control characters take six bytes each.
        assert!(show(&arrived("a", &[1; 100]), 200).contains("left_out"));
    }

    #[test]
    fn parts_carry_the_bodies_as_they_came() {
        let mut whole = whole(&[("a", b"\xff\r\n--x"), ("b b", &[b'y'; 100])]);
        whole.gathered.answers[0].kind = Some(HeaderValue::from_static("image/png"));
        let bytes = whole.multipart("bound", 50);
        let text = String::from_utf8_lossy(&bytes);
        let parts: Vec<&str> = text.split("--bound").collect();
        assert_eq!((parts.len(), parts[3]), (4, "--\r\n"));
        let (_, summary) = parts[1].split_once("\r\n\r\n").unwrap();
        let summary: Value = serde_json::from_str(summary.trim_end()).unwrap();
        assert_eq!(summary["results"]["b b"]["left_out"], true);
        assert!(
            parts[2].contains("nagaya-endpoint: a\r\n") && parts[2].contains("content-type: image/png\r\n")
        );
        assert!(parts[2].contains("content-length: 6\r\n\r\n"));
        let name = String::from_utf8(whole.multipart("bound", 500)).unwrap_err();
        assert!(String::from_utf8_lossy(name.as_bytes()).contains("nagaya-endpoint: b%20b\r\n"));
    }
}
