//! Statements as named blocks of a file.
//!
//! A block begins with a line `-- name: NAME` and ends before the next such line or with the file. What stands
//! above the first block is a comment about the file. Comments inside of a block are part of its statement.

const HEADER: &str = "-- name: ";

/// Returns the statement of a block, without the white space around it.
///
/// Call it in a `const`: an unknown name or an empty block then stops the build.
///
/// ```
/// const FILE: &str = "-- name: one\nSELECT 1;\n-- name: two\nSELECT 2;\n";
/// const TWO: &str = nagaya_sql::block(FILE, "two");
/// assert_eq!(TWO, "SELECT 2;");
/// ```
///
/// ```compile_fail
/// const FILE: &str = "-- name: one\nSELECT 1;\n";
/// const THREE: &str = nagaya_sql::block(FILE, "three");
/// # println!("{THREE}");
/// ```
pub const fn block(file: &'static str, name: &str) -> &'static str {
    let bytes = file.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = line_end(bytes, at);
        if is_header(bytes, at) && is_name(bytes, at + HEADER.len(), end, name) {
            let text = file.split_at(end).1;
            let text = text.split_at(text_len(text.as_bytes())).0.trim_ascii();
            assert!(!text.is_empty(), "the block of this name has no statement");
            return text;
        }
        at = end + 1;
    }
    panic!("the SQL file has no block of this name")
}

/// Returns the names and statements of all blocks of a file, in order. For tests that prepare every statement.
///
/// Panics if two blocks have the same name or if a statement stands above the first block.
pub fn blocks(file: &str) -> Vec<(&str, &str)> {
    let mut blocks: Vec<(&str, &str)> = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let end = line_end(file.as_bytes(), at);
        let line = &file[at..end];
        if let Some(name) = line.strip_prefix(HEADER) {
            assert!(
                blocks.iter().all(|(known, _)| *known != name),
                "two blocks are named {name:?}"
            );
            let text = &file[end..];
            blocks.push((name, text[..text_len(text.as_bytes())].trim_ascii()));
        } else if blocks.is_empty() {
            assert!(
                line.is_empty() || line.starts_with("--"),
                "a statement stands above the first block: {line:?}"
            );
        }
        at = end + 1;
    }
    blocks
}

/// Returns where the line that begins at `at` ends.
const fn line_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    at
}

/// Returns how far the text that begins at a line's end goes on until the next header.
const fn text_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' && is_header(bytes, at + 1) {
            return at;
        }
        at += 1;
    }
    at
}

const fn is_header(bytes: &[u8], at: usize) -> bool {
    starts_with(bytes, at, HEADER.as_bytes())
}

const fn is_name(bytes: &[u8], at: usize, end: usize, name: &str) -> bool {
    end - at == name.len() && starts_with(bytes, at, name.as_bytes())
}

const fn starts_with(bytes: &[u8], at: usize, prefix: &[u8]) -> bool {
    if bytes.len() < at + prefix.len() {
        return false;
    }
    let mut seen = 0;
    while seen < prefix.len() {
        if bytes[at + seen] != prefix[seen] {
            return false;
        }
        seen += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
-- Queries about rooms.

-- name: find
-- Parameters: id.
SELECT name
FROM rooms
WHERE id = ?1;

-- name: find_all
SELECT name FROM rooms;
-- name: last
SELECT 'é';";

    #[test]
    fn a_block_is_the_text_between_two_headers_with_its_comments() {
        const FIND: &str = block(FILE, "find");
        assert_eq!(
            FIND,
            "-- Parameters: id.\nSELECT name\nFROM rooms\nWHERE id = ?1;"
        );
        assert_eq!(block(FILE, "find_all"), "SELECT name FROM rooms;");
        assert_eq!(block(FILE, "last"), "SELECT 'é';");
    }

    #[test]
    fn the_list_of_blocks_has_what_each_name_finds() {
        let names: Vec<&str> = blocks(FILE).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["find", "find_all", "last"]);
        for (name, text) in blocks(FILE) {
            assert_eq!(block(FILE, name), text);
        }
    }

    #[test]
    #[should_panic(expected = "no block of this name")]
    fn part_of_a_name_is_not_the_name() {
        block(FILE, "fin");
    }

    #[test]
    #[should_panic(expected = "has no statement")]
    fn a_block_without_a_statement_is_refused() {
        block("-- name: a\n\n-- name: b\nSELECT 1", "a");
    }

    #[test]
    #[should_panic(expected = "two blocks are named \"a\"")]
    fn two_blocks_of_one_name_are_refused() {
        blocks("-- name: a\nSELECT 1\n-- name: a\nSELECT 2");
    }

    #[test]
    #[should_panic(expected = "stands above the first block")]
    fn a_statement_without_a_name_is_refused() {
        blocks("SELECT 1;\n-- name: a\nSELECT 2;");
    }
}
