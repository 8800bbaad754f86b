//! SQL in few files, rows read through the row macro.

use crate::source;

/// Files of queries and migrations, at most.
const SQL_FILES_MAX: usize = 60;

/// Where columns are read by number: the macro, and the reader of single values beside each driver.
const MACRO: &[&str] = &[
    "crates/base/sql/src/row.rs",
    "crates/base/sqlite-client/src/scalar.rs",
    "crates/base/postgres-client/src/scalar.rs",
];

#[test]
fn queries_lie_in_few_files() {
    let count = source::files(&source::root().join("crates"), "sql").len();
    assert!(count <= SQL_FILES_MAX, "{count} SQL files");
}

#[test]
fn columns_are_read_by_the_row_macro_only() {
    let mut found = Vec::new();
    for path in source::rust_files() {
        let folder = path.to_string_lossy();
        if MACRO.contains(&folder.as_ref()) || folder.contains("/tests/") {
            continue;
        }
        let text = source::read(&path);
        let code = text.split("mod tests {").next().unwrap_or(&text);
        for (number, line) in code.lines().enumerate() {
            if reads_a_numbered_column(line) {
                found.push(format!("{folder}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "numbered columns:\n{}", found.join("\n"));
}

/// Finds `row.get(3)`, `row.try_get::<_, i64>(3)` and their like.
fn reads_a_numbered_column(line: &str) -> bool {
    line.split("row").skip(1).any(|rest| {
        let Some(call) = rest
            .strip_prefix(".get")
            .or_else(|| rest.strip_prefix(".try_get"))
        else {
            return false;
        };
        let arguments = match call.strip_prefix("::<") {
            Some(generic) => generic.split_once(">(").map(|(_, arguments)| arguments),
            None => call.strip_prefix('('),
        };
        arguments.is_some_and(|arguments| arguments.starts_with(|first: char| first.is_ascii_digit()))
    })
}

#[test]
fn numbered_reads_are_recognised() {
    assert!(reads_a_numbered_column("let id = row.get(0)?;"));
    assert!(reads_a_numbered_column("id: row.try_get::<_, i64>(12)?,"));
    assert!(!reads_a_numbered_column("let row = rows.get(0);"));
    assert!(!reads_a_numbered_column("row.get(name)"));
}
