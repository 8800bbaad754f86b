//! Walks a TOML file into keys with line numbers.

use toml_edit::{Document, Item, Key, TableLike, Value};

use crate::section::SectionMeta;
use crate::value::Raw;

/// One value found in the file, or an unknown section when `value` is `None`.
pub(crate) struct FileItem {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) value: Option<Raw>,
}

/// Why the file is not TOML.
pub(crate) struct SyntaxProblem {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Lists every value of the file. A table that is no section, and no part of a section's
/// name, is listed once by itself: its keys would only repeat the same mistake.
pub(crate) fn items(text: &str, sections: &[&'static SectionMeta]) -> Result<Vec<FileItem>, SyntaxProblem> {
    let document = Document::parse(text).map_err(|error| SyntaxProblem {
        line: error.span().map_or(0, |span| line_of(text, span.start)),
        message: format!("not valid TOML: {}", error.message().trim().replace('\n', ", ")),
    })?;
    let mut walk = Walk {
        text,
        sections,
        found: Vec::new(),
    };
    walk.table(document.as_table(), "");
    walk.found.sort_by_key(|item| item.line);
    Ok(walk.found)
}

struct Walk<'a> {
    text: &'a str,
    sections: &'a [&'static SectionMeta],
    found: Vec<FileItem>,
}

impl Walk<'_> {
    fn table(&mut self, table: &dyn TableLike, prefix: &str) {
        for (name, item) in table.iter() {
            let path = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}.{name}")
            };
            let line = self.line(table.key(name), item);
            let is_setting = self.sections.iter().any(|section| {
                section.name == prefix && section.fields.iter().any(|field| field.name == name)
            });
            let value = match item.as_table_like() {
                Some(inner) if !is_setting && self.leads_to_a_section(&path) => {
                    self.table(inner, &path);
                    continue;
                }
                Some(_) if !is_setting => None,
                _ => Some(raw(item)),
            };
            self.found.push(FileItem {
                key: path,
                line,
                value,
            });
        }
    }

    fn leads_to_a_section(&self, path: &str) -> bool {
        self.sections.iter().any(|section| {
            let rest = section.name.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    fn line(&self, key: Option<&Key>, item: &Item) -> usize {
        let span = key.and_then(Key::span).or_else(|| item.span());
        span.map_or(0, |span| line_of(self.text, span.start))
    }
}

fn raw(item: &Item) -> Raw {
    match item {
        Item::Value(value) => raw_value(value),
        Item::None => Raw::Unset,
        Item::Table(table) => raw_table(table),
        Item::ArrayOfTables(_) => Raw::Other("a list of tables"),
    }
}

fn raw_value(value: &Value) -> Raw {
    match value {
        Value::String(text) => Raw::Text(text.value().clone()),
        Value::Integer(number) => Raw::Integer(*number.value()),
        Value::Float(number) => Raw::Float(*number.value()),
        Value::Boolean(flag) => Raw::Bool(*flag.value()),
        Value::Array(items) => Raw::List(items.iter().map(raw_value).collect()),
        Value::Datetime(_) => Raw::Other("a date"),
        Value::InlineTable(table) => raw_table(table),
    }
}

fn raw_table(table: &dyn TableLike) -> Raw {
    let rows = table.iter().map(|(key, item)| (key.to_owned(), raw(item)));
    Raw::Table(rows.collect())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
