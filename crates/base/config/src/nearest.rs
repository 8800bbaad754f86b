//! The name a person probably meant.

/// Returns the candidate closest to `name`, if one is close enough to be a slip of the
/// fingers: at most a third of its letters wrong, and never more than three.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the letters to insert, delete, replace or swap with a neighbour.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let replaced = above[column - 1] + usize::from(!same);
            let mut best = replaced.min(above[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(before[column - 2] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let names = ["listen", "token", "body_max"];
        let check = |name: &str, expected: Option<&str>| assert_eq!(nearest(name, names), expected, "{name}");
        check("lisen", Some("listen"));
        check("litsen", Some("listen"));
        check("LISTEN", Some("listen"));
        check("max_body", None);
        check("bodymax", Some("body_max"));
        check("colour", None);
        check("", None);
    }
}
