//! The committed answers, and the requests they are about.

use nagaya_command_spec::key_positions::each_key;

use crate::rights::{self, Verdict, Who};
use crate::testing::rights::{commands, request};

#[test]
fn the_committed_answers_are_what_the_table_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rights/answers.tsv");
    let mut wanted = "command".to_owned();
    Who::ALL
        .iter()
        .for_each(|who| wanted += &format!("\t{}", who.name()));
    wanted.push('\n');
    for command in commands() {
        let request = request(command);
        wanted += &command.full_name;
        for who in Who::ALL {
            let answer = rights::derive(command, &request.as_args(), who);
            wanted += &format!("\t{}", answer.name());
        }
        wanted.push('\n');
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    let changed: Vec<&str> = wanted
        .lines()
        .filter(|line| !found.lines().any(|known| known == *line))
        .collect();
    assert!(
        found == wanted,
        "run with UPDATE_DOCS=1 if this is meant: {changed:#?}"
    );
}

#[test]
fn every_request_names_the_keys_that_its_command_has() {
    for command in commands() {
        let request = request(command);
        let args = request.as_args();
        assert!(command.spec.accepts(args.len()), "{}", command.full_name);
        let mut keys = 0;
        let found = each_key(command.spec, &args, |at, _| {
            keys += 1;
            assert_eq!(&args[at], b"{user:1}key", "{}", command.full_name);
        });
        assert_eq!(found, Ok(()), "{}", command.full_name);
        let has_keys = command
            .spec
            .keys
            .iter()
            .any(|spec| !spec.flags.has(nagaya_command_spec::spec::NOT_KEY));
        assert_eq!(keys > 0, has_keys, "{}", command.full_name);
    }
}

#[test]
fn the_table_for_readers_has_every_command_once() {
    let text = rights::markdown();
    let rows = rights::rows();
    assert!(rows.len() > 350, "{}", rows.len());
    assert!(
        rows.iter()
            .all(|row| row.answers[Who::ALL.len() - 1] == Verdict::Ended)
    );
    let listed: usize = text
        .lines()
        .skip(2)
        .map(|line| line.split('|').nth(1).unwrap().split(", ").count())
        .sum();
    assert_eq!(listed, rows.len());
}
