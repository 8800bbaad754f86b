//! The pages under `docs/` that are made from the code.

use std::collections::BTreeMap;

use nagaya_config::{reference_page, sample_file};

use crate::app::settings::sections;
use crate::http::RIGHTS;

const REFERENCE_INTRODUCTION: &str = "\
# Settings

<!-- Generated from the doc comments of the settings; see CONTRIBUTING.md. -->

A value is taken from the defaults, then from the TOML file given by `--config`, then from
the environment (`NAGAYA_SECTION__KEY`), then from flags; the later one wins. Every setting
can be given as a flag by `--set section.key=value`. `nagaya config show` prints what is in
force and where each value comes from; `nagaya config check` only checks. A key that does
not exist, a value of the wrong type or out of its range stops the start before anything is
made or bound, with one error that lists every such problem.

`nagaya.sample.toml` beside this page holds all settings with their defaults.
";

const SAMPLE_INTRODUCTION: &str = "\
# Every setting of nagaya with its default. Generated; docs/config.md says more.
# Use it by: nagaya --config FILE up
";

/// `docs/config.md`.
pub fn config_page() -> String {
    format!("{REFERENCE_INTRODUCTION}{}", reference_page(&sections()))
}

/// `docs/nagaya.sample.toml`.
pub fn sample_config() -> String {
    format!("{SAMPLE_INTRODUCTION}{}", sample_file(&sections()))
}

/// The tables of `docs/security.md` that tell who may do what, from the data that tests walk.
pub fn rights_tables() -> String {
    let http = [nagaya_jobs_api::RIGHTS, RIGHTS];
    format!(
        "### Routes, pages and gRPC methods\n\n{}\n### Commands of the room\n\n{}",
        route_table(&http),
        nagaya_commands::rights::markdown()
    )
}

/// The callers of the matrices, in the order of their columns.
const CALLERS: [&str; 9] = [
    "no token",
    "unknown token",
    "`read`",
    "`enqueue`",
    "`work`",
    "`admin`",
    "another tenant",
    "bound to another queue",
    "revoked token",
];
/// The column of the caller who may do everything.
const ADMIN: usize = 5;

/// Writes matrices as one table, routes with the same answers in one row. What an administrator is answered is the
/// answer of the route itself, so a caller who is answered the same has been let in.
fn route_table(matrices: &[&str]) -> String {
    let mut groups: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    let rows = matrices.iter().flat_map(|matrix| matrix.lines());
    for row in rows.filter(|row| !row.starts_with('#') && !row.starts_with("METHOD")) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let Some((route, answers)) = words.split_at_checked(2) else {
            continue;
        };
        let own = answers.get(ADMIN).copied().unwrap_or_default();
        let lets_in = !["401", "403"].contains(&own);
        let tell = |answer: &&str| match *answer {
            answer if answer == own && lets_in => "yes".to_owned(),
            answer => answer.to_owned(),
        };
        let told = answers.iter().map(tell).collect();
        groups
            .entry(told)
            .or_default()
            .push(format!("`{}`", route.join(" ")));
    }
    let mut text = format!(
        "| routes | {} |\n|---|{}\n",
        CALLERS.join(" | "),
        "---|".repeat(CALLERS.len())
    );
    for (answers, routes) in groups {
        text += &format!("| {} | {} |\n", routes.join(", "), answers.join(" | "));
    }
    text
}
