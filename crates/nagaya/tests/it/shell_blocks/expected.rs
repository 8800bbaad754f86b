//! Compares what a document shows with what was printed.
//!
//! `...` stands for anything within a line, a line of it alone for any number of lines. Runs of
//! spaces count as one: columns are as wide as their contents happen to be.

/// Whether the printed text is as shown; with `any_numbers` digits match other digits.
pub(super) fn fits(shown: &str, printed: &str, any_numbers: bool) -> bool {
    let shown: Vec<String> = lines(shown, any_numbers);
    let printed: Vec<String> = lines(printed, any_numbers);
    lines_fit(&shown, &printed)
}

fn lines(text: &str, any_numbers: bool) -> Vec<String> {
    let text = text.trim_matches('\n');
    text.lines().map(|line| normalize(line, any_numbers)).collect()
}

/// One space between words, and one `0` for a number of any length.
fn normalize(line: &str, any_numbers: bool) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if !any_numbers {
        return line;
    }
    let mut simple = String::new();
    for letter in line.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if !(letter == '0' && simple.ends_with('0')) {
            simple.push(letter);
        }
    }
    simple
}

fn lines_fit(shown: &[String], printed: &[String]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..]))
        }
        (Some((shown, shown_rest)), Some((printed, printed_rest))) => {
            line_fits(shown, printed) && lines_fit(shown_rest, printed_rest)
        }
        _ => false,
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_fits_itself_whatever_the_spaces() {
        assert!(fits("a  b\nc\n", "a b\nc\n", false));
        assert!(!fits("a b\n", "a b\nc\n", false));
        assert!(!fits("a b\nc\n", "a b\n", false));
    }

    #[test]
    fn dots_stand_for_anything_in_a_line_and_for_lines() {
        assert!(fits("id ... is ...\n", "id 7 is new\n", false));
        assert!(!fits("id ... is old\n", "id 7 is new\n", false));
        assert!(fits("a\n...\nz\n", "a\nb\nc\nz\n", false));
        assert!(fits("a\n...\nz\n", "a\nz\n", false));
        assert!(!fits("a\n...\nz\n", "a\nb\n", false));
    }

    #[test]
    fn numbers_fit_other_numbers_only_when_told_so() {
        assert!(fits("took 12.5 ms", "took 1234.0 ms", true));
        assert!(!fits("took 12.5 ms", "took 13.5 ms", false));
        assert!(!fits("took 12 ms", "took long ms", true));
    }
}
