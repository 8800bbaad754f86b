//! Reads what `/metrics` answers: families with their kind, help and labels.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) labels: BTreeSet<String>,
}

/// Families by the name under which they are declared.
pub(super) type Families = BTreeMap<String, Family>;

pub(super) fn parse(text: &str) -> Families {
    let mut families = Families::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => {
                families.entry((*name).to_owned()).or_default().help = (*help).to_owned()
            }
            ["#", "TYPE", name, kind] => {
                families.entry((*name).to_owned()).or_default().kind = (*kind).to_owned()
            }
            ["#", ..] => (),
            _ => add_labels(&mut families, line),
        }
    }
    families
}

fn add_labels(families: &mut Families, sample: &str) {
    let Some((name, rest)) = sample.split_once('{') else {
        return;
    };
    let Some((labels, _)) = rest.rsplit_once('}') else {
        return;
    };
    let family = families
        .iter_mut()
        .find(|(family, one)| series(family, &one.kind).contains(&name.to_owned()));
    let Some((_, family)) = family else {
        panic!("{name} is not declared")
    };
    let mut rest = labels;
    while let Some((label, value)) = rest.split_once("=\"") {
        if label != "le" {
            family.labels.insert(label.to_owned());
        }
        let end = closing_quote(value);
        rest = value[end + 1..].trim_start_matches(',');
    }
}

/// Where a label's value ends; quotes inside it come with a backslash.
fn closing_quote(value: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in value.char_indices() {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    panic!("a label without an end: {value}")
}

/// The names under which a family can be asked for.
pub(super) fn series(family: &str, kind: &str) -> Vec<String> {
    let suffixes: &[&str] = match kind {
        "counter" => &["_total"],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_sum", "_count"],
        _ => &[""],
    };
    suffixes
        .iter()
        .map(|suffix| format!("{family}{suffix}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_helps_and_labels_are_found() {
        let text = "# HELP a_requests Requests.\n# TYPE a_requests counter\n\
                    a_requests_total{route=\"/x,\\\"{y}\",status=\"200\"} 1\n\
                    # HELP b_seconds Time.\n# TYPE b_seconds histogram\n# UNIT b_seconds seconds\n\
                    b_seconds_bucket{le=\"1.0\",route=\"z\"} 1\n# EOF\n";
        let families = parse(text);
        let labels = |name: &str| families[name].labels.iter().cloned().collect::<Vec<_>>();
        assert_eq!(labels("a_requests"), ["route", "status"]);
        assert_eq!(labels("b_seconds"), ["route"]);
        assert_eq!(families["a_requests"].help, "Requests.");
        assert_eq!(series("b", "histogram"), ["b_bucket", "b_sum", "b_count"]);
    }
}
