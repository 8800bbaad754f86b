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

/// Runs what the server prints as `Try next`, one line after the other, in a shell that knows none of its settings.
const HINTS: &str = r#"
sed -n '/^Try next/,/^Ctrl-C/s/^  //p' "$kept/2.out" > hints
[ "$(wc -l < hints)" -ge 5 ]
while read -r hint; do
    echo "$hint"
    case $hint in
        # A person would type the secret.
        read*NAGAYA_TOKEN*) typed=hunter2-hunter2-2 ;;
        read*) typed=hunter3-hunter3-3 ;;
        # A curl that is told of an error succeeds; and the first ids take some seconds.
        curl*) hint="curl -fsS --retry 20 --retry-all-errors --retry-delay 1 ${hint#curl}" ;;
        # It would go on until somebody ends it.
        *--watch) hint=${hint% --watch} ;;
    esac
    eval "$hint" <<<"${typed-}"
    unset typed
done < hints
! grep -q NOAUTH "$kept/3.out"
"#;

/// Starts a server after `before` and runs its hints.
#[track_caller]
fn check_hints(before: &str, up: &str) {
    let block = |text: &str| document::Block {
        language: "sh".to_owned(),
        text: text.to_owned(),
        ..document::Block::default()
    };
    let server = document::Block {
        background: Some("server".to_owned()),
        until: Some("Ctrl-C stops it".to_owned()),
        ..block(up)
    };
    let steps = [(1, block(before)), (2, server), (3, block(HINTS))].map(|(line, block)| document::Step {
        line,
        act: document::Act::Run(block),
    });
    runner::run("the banner", &steps);
}

#[test]
fn every_hint_that_a_server_prints_is_true() {
    check_hints(":\n", "nagaya up\n");
}

/// A server that asks for a token and passwords, at other ports, with another fleet.
const GUARDED: &str = r#"
cat > nagaya.toml <<'END'
[house]
data = "elsewhere"
[http]
listen = "127.0.0.1:7500"
token = "hunter2-hunter2-2"
[room]
listen = "127.0.0.1:6480"
password = "hunter3-hunter3-3"
[fanout]
listen = "127.0.0.1:7501"
token = "hunter3-hunter3-3"
[fanout.endpoints]
health = "http://127.0.0.1:7500/healthz"
[fleet]
app = "cams"
END
"#;

#[test]
fn the_hints_of_a_guarded_server_with_a_settings_file_are_true() {
    check_hints(GUARDED, "nagaya --config nagaya.toml up\n");
}

#[test]
fn the_hints_of_a_guarded_server_with_flags_are_true() {
    let up = "nagaya up --http-listen 0.0.0.0:7500 --set http.token=hunter2-hunter2-2 --room-listen 127.0.0.1:6480 \
        --set room.password=hunter3-hunter3-3 --data elsewhere\n";
    check_hints(":\n", up);
}

#[test]
fn the_hints_of_a_server_on_redis_and_postgresql_are_true() {
    let before = "scripts/cluster start\nnagaya ids init --unused \
        --redis 'redis+cluster://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003?ns={ids}'\n";
    let up = "export NAGAYA_HTTP__TOKEN=hunter2-hunter2-2\nnagaya up \
        --redis redis+cluster://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 \
        --postgres postgres://nagaya@127.0.0.1:7010/nagaya\n";
    check_hints(before, up);
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
