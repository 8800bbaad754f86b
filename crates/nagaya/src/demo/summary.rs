//! The summary at the end.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::part::Part;
use super::target::Target;
use crate::app::terminal::{self, Paint};

/// How a part went.
struct Told {
    name: &'static str,
    sentence: String,
    figures: Value,
    skipped: Option<&'static str>,
    error: Option<String>,
    is_wrong: bool,
}

pub(super) struct Summary {
    url: String,
    seconds: u64,
    parts: Vec<Told>,
    /// Why something was left behind.
    left: Option<String>,
}

impl Summary {
    pub(super) fn new(
        target: &Target,
        seconds: u64,
        parts: &[Box<dyn Part>],
        ends: Vec<anyhow::Result<()>>,
        left: Option<anyhow::Error>,
    ) -> Summary {
        let told = parts.iter().zip(ends).map(|(part, end)| Told {
            name: part.name(),
            sentence: part.sentence(),
            figures: part.figures(),
            skipped: part.skipped(),
            error: end.err().map(|error| format!("{error:#}")),
            is_wrong: part.is_wrong(),
        });
        Summary {
            url: target.url.clone(),
            seconds,
            parts: told.collect(),
            left: left.map(|error| format!("{error:#}")),
        }
    }

    /// Whether all that was tried held.
    pub(super) fn is_fine(&self) -> bool {
        self.left.is_none()
            && self
                .parts
                .iter()
                .all(|part| part.error.is_none() && !part.is_wrong)
    }

    pub(super) fn print(&self, as_json: bool) -> io::Result<()> {
        let text = if as_json {
            format!("{:#}\n", self.to_json())
        } else {
            self.to_words(terminal::stdout())
        };
        io::stdout().write_all(text.as_bytes())
    }

    fn to_json(&self) -> Value {
        let part = |part: &Told| {
            let value = json!({
                "figures": part.figures, "sentence": part.sentence, "skipped": part.skipped, "error": part.error,
                "wrong": part.is_wrong,
            });
            (part.name.to_owned(), value)
        };
        let parts: Map<String, Value> = self.parts.iter().map(part).collect();
        json!({
            "url": self.url, "seconds": self.seconds, "fine": self.is_fine(), "left_behind": self.left,
            "parts": parts,
        })
    }

    fn to_words(&self, paint: Paint) -> String {
        let mut text = format!("\n{}\n\n", paint.bold("What was seen"));
        for part in &self.parts {
            let name = paint.bold(&format!("{:7}", part.name));
            let words = match (part.skipped, &part.error) {
                (Some(why), _) => why.to_owned(),
                (None, Some(error)) => format!(
                    "{}; {}",
                    part.sentence,
                    paint.red(&format!("ended early: {error}"))
                ),
                (None, None) => part.sentence.clone(),
            };
            text.push_str(&format!("  {name} {words}\n"));
        }
        text.push_str(&match &self.left {
            None => "\nEverything that the demo brought has been taken away; its ended jobs can be looked at for five minutes more.\n".to_owned(),
            Some(why) => format!(
                "\n{}; the next demo clears it away.\n",
                paint.red(&format!("Something was left behind: {why}"))
            ),
        });
        let url = &self.url;
        text.push_str(&format!(
            "\nWhere to look further:\n\n  {url}/          the console\n  {url}/metrics   the figures of every service\n  \
             docs/             room.md, jobs.md, fanout.md, fleet.md and ids.md\n"
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(error: Option<&str>, is_wrong: bool, left: Option<&str>) -> Summary {
        let told = Told {
            name: "room",
            sentence: "12 visits".to_owned(),
            figures: json!({ "visits": 12 }),
            skipped: None,
            error: error.map(str::to_owned),
            is_wrong,
        };
        Summary {
            url: "http://127.0.0.1:7400".to_owned(),
            seconds: 5,
            parts: vec![told],
            left: left.map(str::to_owned),
        }
    }

    #[test]
    fn it_is_fine_only_when_nothing_failed_was_wrong_or_is_left() {
        assert!(summary(None, false, None).is_fine());
        assert!(!summary(Some("gone"), false, None).is_fine());
        assert!(!summary(None, true, None).is_fine());
        assert!(!summary(None, false, Some("keys")).is_fine());
    }

    #[test]
    fn both_forms_tell_of_each_part() {
        let summary = summary(Some("gone"), false, None);
        assert_eq!(summary.to_json()["parts"]["room"]["figures"]["visits"], 12);
        let words = summary.to_words(Paint::plain());
        assert!(words.contains("room    12 visits; ended early: gone"), "{words}");
        assert!(words.contains("http://127.0.0.1:7400/metrics"), "{words}");
    }
}
