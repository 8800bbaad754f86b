//! Generated pages are what the code would generate today.
//!
//! `UPDATE_DOCS=1 cargo test -p nagaya --test it docs` writes them anew.

use std::fs;
use std::path::Path;

fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{name} is stale; run `UPDATE_DOCS=1 cargo test -p nagaya --test it docs` and commit it"
    );
}

#[test]
fn the_settings_reference_is_fresh() {
    check("config.md", &nagaya::docs::config_page());
}

#[test]
fn the_sample_config_is_fresh_and_valid() {
    let sample = nagaya::docs::sample_config();
    check("nagaya.sample.toml", &sample);
    let mut loader = nagaya_config::Loader::new(&nagaya::settings::sections());
    loader.file("nagaya.sample.toml", &sample);
    assert!(loader.finish().is_ok());
}

#[test]
fn the_tables_of_rights_are_fresh() {
    const BEGIN: &str =
        "<!-- Generated from the matrices of rights that tests walk; see CONTRIBUTING.md. -->\n\n";
    const END: &str = "<!-- End of the generated tables. -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    check(
        "security.md",
        &format!("{before}{BEGIN}{}\n{END}{after}", nagaya::docs::rights_tables()),
    );
}
