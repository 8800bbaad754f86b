//! What the doctor says.

use std::fmt::Write;

use serde::Serialize;

use crate::app::terminal::Paint;

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    Folder,
    Hot,
    Disk,
    Log,
    Cold,
    Memory,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Folder => "folder",
            Part::Hot => "hot tier",
            Part::Disk => "disk",
            Part::Log => "log",
            Part::Cold => "cold tier",
            Part::Memory => "memory",
        }
    }
}

/// What `--fix` does about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remedy {
    /// Nothing: a person has to.
    ByHand,
    /// Takes rights away from others.
    MakePrivate,
    /// Counts keys and bytes of all tags anew.
    Recount,
    /// Cuts the log before the damage.
    Salvage,
}

/// Something wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) part: Part,
    pub(super) what: String,
    pub(super) remedy: String,
    pub(super) fix: Remedy,
}

/// Everything that was looked at.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The server was running, so the cold tier was looked at in part only.
    pub(super) running: bool,
    /// What is well, in words.
    facts: Vec<(Part, String)>,
    pub(super) findings: Vec<Finding>,
    /// What `--fix` has done.
    pub(super) mended: Vec<String>,
}

impl Report {
    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn note(&mut self, part: Part, fact: impl Into<String>) {
        self.facts.push((part, fact.into()));
    }

    pub(super) fn find(&mut self, part: Part, what: impl Into<String>, remedy: impl Into<String>) {
        self.find_fixable(part, what, remedy, Remedy::ByHand);
    }

    pub(super) fn find_fixable(
        &mut self,
        part: Part,
        what: impl Into<String>,
        remedy: impl Into<String>,
        fix: Remedy,
    ) {
        self.findings.push(Finding {
            part,
            what: what.into(),
            remedy: remedy.into(),
            fix,
        });
    }

    pub(super) fn json(&self) -> String {
        let facts: Vec<_> = self
            .facts
            .iter()
            .map(|(part, fact)| serde_json::json!({"part": part, "what": fact}))
            .collect();
        let text = serde_json::json!({
            "ok": self.is_clean(),
            "running": self.running,
            "facts": facts,
            "findings": self.findings,
            "mended": self.mended,
        });
        format!("{text:#}\n")
    }

    pub(super) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        let mut line = |state: String, part: &str, what: &str| {
            writeln!(text, "{state}  {part:10} {what}").expect("writing to a string cannot fail");
        };
        for done in &self.mended {
            line(paint.green("mended "), "", done);
        }
        for (part, fact) in &self.facts {
            line(paint.green("ok     "), part.name(), fact);
        }
        for finding in &self.findings {
            line(paint.red("problem"), finding.part.name(), &finding.what);
            line(" ".repeat(7), "", &finding.remedy);
        }
        let verdict = match self.findings.len() {
            0 => paint.green("nothing is wrong"),
            1 => paint.red("1 problem"),
            more => paint.red(&format!("{more} problems")),
        };
        let how = if self.running {
            "; the server is running, so only a part of the cold tier was looked at"
        } else {
            ""
        };
        writeln!(text, "\n{verdict}{how}").expect("writing to a string cannot fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_stand_below_what_is_well_with_their_remedies() {
        let mut report = Report::default();
        report.note(Part::Log, "1 segment");
        report.find(Part::Disk, "little is free", "free some");
        let text = report.text(Paint::plain());
        let expected = "ok       log        1 segment\n\
                        problem  disk       little is free\n\
                        \u{20}                   free some\n\
                        \n1 problem\n";
        assert_eq!(text, expected);
        assert!(!report.is_clean());
    }
}
