//! `nagaya config show` and `nagaya config check`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use nagaya_config::{Flag, Loaded, Origin, Raw};
use serde_json::{Map, Value, json};

use crate::app::access;
use crate::app::settings::{self, Settings};
use crate::cli::GlobalArgs;

/// Prints the effective settings with the origin of each; as TOML, it is a valid config
/// file but for the secrets.
pub(crate) fn show(global: &GlobalArgs, flags: Vec<Flag>, json: bool) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    let text = if json {
        format!("{:#}\n", as_json(&loaded))
    } else {
        as_toml(&loaded)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the settings and checks all rules, as `up` does before it touches anything.
pub(crate) fn check(global: &GlobalArgs, flags: Vec<Flag>) -> anyhow::Result<ExitCode> {
    let settings = Settings::new(&settings::load(global, flags)?)?;
    let mut text = "the configuration is valid\n".to_owned();
    for line in access::lines(&settings) {
        writeln!(text, "open without credentials: {line}").expect("writing to a string cannot fail");
    }
    for warning in settings.warnings() {
        writeln!(text, "warning: {warning}").expect("writing to a string cannot fail");
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn as_toml(loaded: &Loaded) -> String {
    let lines: Vec<_> = loaded
        .entries()
        .map(|entry| {
            let line = match &entry.shown {
                Raw::Unset => format!("# {} is not set", entry.field.name),
                shown => format!("{} = {shown}", entry.field.name),
            };
            (entry.section.name, line, entry.origin.to_string())
        })
        .collect();
    let width = lines
        .iter()
        .map(|(_, line, _)| line.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    let mut current = "";
    for (section, line, origin) in &lines {
        if *section != current {
            let gap = if current.is_empty() { "" } else { "\n" };
            writeln!(text, "{gap}[{section}]").expect("writing to a string cannot fail");
            current = section;
        }
        writeln!(text, "{line:width$}  # {origin}").expect("writing to a string cannot fail");
    }
    text
}

fn as_json(loaded: &Loaded) -> Value {
    let mut sections = Map::new();
    for entry in loaded.entries() {
        let section = sections.entry(entry.section.name).or_insert_with(|| json!({}));
        section[entry.field.name] = json!({
            "value": raw_as_json(&entry.shown),
            "origin": origin_as_json(entry.origin),
        });
    }
    Value::Object(sections)
}

fn raw_as_json(raw: &Raw) -> Value {
    match raw {
        Raw::Unset | Raw::Other(_) => Value::Null,
        Raw::Bool(value) => json!(value),
        Raw::Integer(value) => json!(value),
        Raw::Float(value) => json!(value),
        Raw::Text(text) | Raw::Words(text) => json!(text),
        Raw::List(items) => items.iter().map(raw_as_json).collect(),
        Raw::Table(rows) => rows
            .iter()
            .map(|(key, item)| (key.clone(), raw_as_json(item)))
            .collect(),
    }
}

fn origin_as_json(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({"kind": "default"}),
        Origin::File { name, line } => json!({"kind": "file", "name": name, "line": line}),
        Origin::Env { name } => json!({"kind": "environment", "name": name}),
        Origin::Flag { name } => json!({"kind": "flag", "name": name}),
    }
}
