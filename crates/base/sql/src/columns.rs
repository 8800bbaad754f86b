//! The columns of rows: where one is, and whether statements return what their rows declare.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::block::blocks;

/// The columns of a statement that returns one value, whatever its name.
pub const SCALAR: &[&str] = &["_"];

/// Returns the position of a column, for an error about its value.
///
/// Call it in a `const`: an unknown name then stops the build.
///
/// ```
/// nagaya_sql::row! { sqlite; struct Room { id: i64, name: String } }
/// assert_eq!(const { nagaya_sql::position(Room::COLUMNS, "name") }, 1);
/// ```
pub const fn position(columns: &[&str], name: &str) -> usize {
    let mut at = 0;
    while at < columns.len() {
        if is_same(columns[at].as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("the row has no column of this name")
}

/// Returns the blocks of all `.sql` files of a folder by `file/block`.
///
/// Panics if the folder cannot be read or holds anything else.
pub fn blocks_in(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that opens can be listed").path();
        let file = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".sql"))
            .unwrap_or_else(|| panic!("{} is not an SQL file", path.display()));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (name, statement) in blocks(&text) {
            found.insert(format!("{file}/{name}"), statement.to_owned());
        }
    }
    found
}

/// Compares the columns that prepared statements have with those of the rows that read them.
///
/// `found` has every statement of a database by `file/block`, and no columns for one that returns no rows.
/// `declared` has the `COLUMNS` of the row type for each that does, or [`SCALAR`]. Panics with a list of all
/// differences.
pub fn assert_columns(found: &BTreeMap<String, Vec<String>>, declared: &[(&str, &[&str])]) {
    let mut differences = Vec::new();
    for (name, columns) in found {
        match declared.iter().find(|(other, _)| other == name) {
            Some((_, row)) if matches(columns, row) => (),
            Some((_, row)) => differences.push(format!("{name} returns {columns:?}, its row reads {row:?}")),
            None if columns.is_empty() => (),
            None => differences.push(format!("{name} returns {columns:?}, no row is declared for it")),
        }
    }
    for (name, _) in declared {
        if !found.contains_key(*name) {
            differences.push(format!("{name} has a row but does not exist"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

const fn is_same(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

fn matches(columns: &[String], row: &[&str]) -> bool {
    columns.len() == row.len()
        && columns
            .iter()
            .zip(row)
            .all(|(column, name)| *name == "_" || column == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(columns: &[&str]) -> BTreeMap<String, Vec<String>> {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        let mut found = BTreeMap::new();
        found.insert("rooms/find".to_owned(), columns);
        found.insert("rooms/delete".to_owned(), Vec::new());
        found
    }

    #[test]
    fn a_position_is_found_by_the_whole_name() {
        assert_eq!(position(&["id_of_tag", "id", "i"], "id"), 1);
    }

    #[test]
    fn names_and_order_must_be_the_same() {
        assert_columns(&found(&["id", "count(*)"]), &[("rooms/find", &["id", "_"])]);
    }

    #[test]
    #[should_panic(expected = "its row reads [\"name\", \"id\"]")]
    fn a_moved_column_is_found() {
        assert_columns(&found(&["id", "name"]), &[("rooms/find", &["name", "id"])]);
    }

    #[test]
    #[should_panic(expected = "no row is declared for it")]
    fn a_statement_without_a_row_is_found() {
        assert_columns(&found(&["id"]), &[]);
    }

    #[test]
    #[should_panic(expected = "rooms/list has a row but does not exist")]
    fn a_row_without_a_statement_is_found() {
        assert_columns(&found(&["id"]), &[("rooms/find", SCALAR), ("rooms/list", SCALAR)]);
    }
}
