//! The metrics that an expression names: enough of the language to know a metric from the rest.

use std::collections::BTreeSet;

/// Words that stand alone and are no metrics.
const KEYWORDS: [&str; 8] = ["and", "or", "unless", "bool", "offset", "inf", "nan", "atan2"];
/// Words before a list of labels in parentheses.
const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Returns the names of all metrics, or what is wrong with the expression.
pub(super) fn metrics(expression: &str) -> Result<BTreeSet<String>, String> {
    let plain = without_selectors(expression)?;
    let mut names = BTreeSet::new();
    let mut rest = plain.as_str();
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        // A letter after a digit belongs to a length of time, such as 5m.
        let is_unit = rest[..start].ends_with(|letter: char| letter.is_ascii_digit());
        let word_end = rest[start..]
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'))
            .map_or(rest.len(), |end| start + end);
        let word = &rest[start..word_end];
        rest = &rest[word_end..];
        if LABEL_LISTS.contains(&word) {
            let list = rest.trim_start().strip_prefix('(');
            rest = list
                .and_then(|list| list.split_once(')'))
                .map_or(rest, |(_, after)| after);
        } else if !is_unit && !is_call(rest) && !KEYWORDS.contains(&word) {
            names.insert(word.to_owned());
        }
    }
    if names.is_empty() {
        Err("it names no metric".to_owned())
    } else {
        Ok(names)
    }
}

/// Whether what follows a word makes it a function: `(`, or `by (` and its like before that.
fn is_call(rest: &str) -> bool {
    let rest = rest.trim_start();
    let is_grouped = |word: &&str| {
        rest.strip_prefix(*word)
            .is_some_and(|rest| rest.trim_start().starts_with('('))
    };
    rest.starts_with('(') || LABEL_LISTS[..2].iter().any(is_grouped)
}

/// Leaves out `{...}`, `[...]` and quoted text, and looks whether all brackets have their other half.
fn without_selectors(expression: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut open: Vec<char> = Vec::new();
    let mut quote = None;
    for letter in expression.chars() {
        if let Some(end) = quote {
            if letter == end {
                quote = None;
            }
            continue;
        }
        match letter {
            '"' | '\'' => quote = Some(letter),
            '(' | '{' | '[' => open.push(letter),
            ')' | '}' | ']' => {
                let wanted = match letter {
                    ')' => '(',
                    '}' => '{',
                    _ => '[',
                };
                if open.pop() != Some(wanted) {
                    return Err(format!("a `{letter}` closes nothing"));
                }
                if letter != ')' {
                    continue;
                }
            }
            _ => (),
        }
        if quote.is_none() && !open.iter().any(|bracket| *bracket != '(') {
            plain.push(letter);
        }
    }
    match (open.is_empty(), quote) {
        (true, None) => Ok(plain),
        _ => Err("a bracket or a quote has no end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: &[&str]) {
        let found: Vec<String> = metrics(expression).unwrap().into_iter().collect();
        assert_eq!(found, expected, "{expression}");
    }

    #[test]
    fn metrics_are_told_from_functions_labels_and_times() {
        check("up == 0", &["up"]);
        check("sum by (route) (rate(a_total{code=~\"5..\"}[5m]))", &["a_total"]);
        check(
            "histogram_quantile(0.99, sum(rate(b_bucket[$__rate_interval])) by (le)) > 0.5",
            &["b_bucket"],
        );
        check("a / on (instance) group_left (version) b offset 5m", &["a", "b"]);
        check("a > 10m and b < bool 3 unless c", &["a", "b", "c"]);
    }

    #[test]
    fn broken_expressions_are_told() {
        assert!(metrics("sum(rate(a[5m])").is_err());
        assert!(metrics("a{b=\"c}").is_err());
        assert!(metrics("sum(a))").is_err());
        assert!(metrics("1 + 1").is_err());
    }
}
