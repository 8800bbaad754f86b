//! Every shell block of the README, the tutorials and the guides does what the text says.

mod document;
mod expected;
mod runner;

use std::path::Path;

/// Runs a document of the repository as a reader would.
#[track_caller]
fn check(document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    match document::steps(&text) {
        Ok(steps) => runner::run(document, &steps),
        Err(error) => panic!("{document}:{error}"),
    }
}

#[test]
fn the_readme_is_true() {
    check("README.md");
}

#[test]
fn the_tutorial_of_the_room_is_true() {
    check("docs/tutorial-room.md");
}

#[test]
fn the_tutorial_of_jobs_is_true() {
    check("docs/tutorial-jobs.md");
}

#[test]
fn the_tutorial_of_the_fanout_is_true() {
    check("docs/tutorial-fanout.md");
}

#[test]
fn the_tutorial_of_ids_is_true() {
    check("docs/tutorial-ids.md");
}

#[test]
fn the_tutorial_of_the_fleet_is_true() {
    check("docs/tutorial-fleet.md");
}

#[test]
fn the_examples_of_results_are_true() {
    check("docs/results.md");
}

#[test]
fn the_guide_to_operations_is_true() {
    check("docs/operations.md");
}

#[test]
fn the_guide_to_security_is_true() {
    check("docs/security.md");
}

#[test]
fn the_guide_to_migrating_is_true() {
    check("docs/migrating.md");
}

/// Runs what the house prints as `Try next`, one line after the other.
const HINTS: &str = r#"
sed -n '/^Try next/,/^Ctrl-C/s/^  //p' "$kept/1.out" > hints
[ "$(wc -l < hints)" -ge 5 ]
while read -r hint; do
    echo "$hint"
    case $hint in
        # A curl that is told of an error succeeds; and the first ids take some seconds.
        curl*) hint="curl -fsS --retry 20 --retry-all-errors --retry-delay 1 ${hint#curl}" ;;
        # It would go on until somebody ends it.
        *--watch) hint=${hint% --watch} ;;
    esac
    eval "$hint" </dev/null
done < hints
"#;

#[test]
fn every_hint_that_a_house_prints_is_true() {
    let block = |text: &str| document::Block {
        language: "sh".to_owned(),
        text: text.to_owned(),
        ..document::Block::default()
    };
    let house = document::Block {
        background: Some("house".to_owned()),
        until: Some("Ctrl-C stops it".to_owned()),
        ..block("nagaya up\n")
    };
    let steps = [(1, house), (2, block(HINTS))].map(|(line, block)| document::Step {
        line,
        act: document::Act::Run(block),
    });
    runner::run("the banner", &steps);
}

#[test]
fn every_tutorial_has_a_test_here() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let here = include_str!("mod.rs");
    for entry in std::fs::read_dir(docs).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.starts_with("tutorial-") || here.contains(&format!("check(\"docs/{name}\")")),
            "{name} is run by no test"
        );
    }
}
