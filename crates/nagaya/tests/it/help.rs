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

/// Whether a command, or one that it belongs to, is left out of the help.
fn is_hidden(path: &[String]) -> bool {
    let mut command = nagaya::command_line();
    path.iter().any(|name| {
        command = command.find_subcommand(name).unwrap().clone();
        command.is_hide_set()
    })
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

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new("man");
    let ran = run(["man".as_ref(), folder.path().as_os_str()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for command in commands() {
        let is_hidden = is_hidden(&command);
        let page = folder
            .path()
            .join(format!("nagaya-{}.1", command.join("-")).replace("nagaya-.1", "nagaya.1"));
        assert_eq!(page.exists(), !is_hidden, "{}", page.display());
    }
    let ran = run(["man", "/nowhere/at/all"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/nowhere/at/all"), "{}", ran.stderr);
}

#[test]
fn help_is_a_command_too() {
    let ran = run(["help", "jobs", "enqueue"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, run(["jobs", "enqueue", "--help"]).stdout);
}
