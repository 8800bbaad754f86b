//! Help, version and completions.

use super::*;

const WIDTH_MAX: usize = 79;

/// Every command there is, as words to put before `-h`.
fn commands() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
        found.push(path.to_vec());
        for inner in command.get_subcommands() {
            let mut path = path.to_vec();
            path.push(inner.get_name().to_owned());
            walk(inner, &path, found);
        }
    }
    let mut found = Vec::new();
    walk(&nagaya::command_line(), &[], &mut found);
    found
}

#[test]
fn every_help_text_fits_79_columns() {
    assert!(commands().len() >= 11);
    for command in commands() {
        for flag in ["-h", "--help"] {
            let ran = run(command.iter().map(String::as_str).chain([flag]));
            assert_eq!(ran.code, Some(0));
            let wide = ran.stdout.lines().find(|line| line.chars().count() > WIDTH_MAX);
            assert_eq!(wide, None, "{command:?} {flag}");
        }
    }
}

#[test]
fn long_help_has_examples_and_works_with_a_broken_config() {
    let ran = run_with(
        ["--config", "nowhere.toml", "--help"],
        &[("NAGAYA_NO__SUCH", "1")],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("Examples:"), "{}", ran.stdout);
    let version = run(["--version"]);
    assert_eq!(
        version.stdout,
        concat!("nagaya ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(["completions", shell]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("http-listen"), "{shell}");
    }
}
