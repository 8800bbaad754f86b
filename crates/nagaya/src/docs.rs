//! The pages under `docs/` that are made from the code.

use nagaya_config::{reference_page, sample_file};

use crate::app::settings::sections;

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
