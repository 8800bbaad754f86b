use super::*;
use nagaya_config::{Error, Flag, Loaded, Loader, Origin};

fn load(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, Error> {
    let mut loader = Loader::new(&sections());
    loader.file("house.toml", file);
    loader.env(
        env.iter()
            .map(|(name, value)| (name.to_string(), value.to_string())),
    );
    loader.flags(flags.iter().map(|(key, value)| Flag {
        key: key.to_string(),
        value: value.to_string(),
        name: "--set".into(),
    }));
    loader.finish()
}

/// Checks that loading fails with exactly these problems, in this order.
fn refused(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)], problems: &[&str]) {
    let error = load(file, env, flags)
        .err()
        .expect("the configuration must be refused");
    let found: Vec<_> = error.problems.iter().map(|problem| problem.to_string()).collect();
    assert_eq!(found, problems);
}

#[test]
fn defaults_stand_when_nothing_is_given() {
    let loaded = load("", &[], &[]).unwrap();
    let door: DoorConfig = loaded.section();
    assert_eq!(door.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(door.open_for, Duration::from_secs(5));
    assert_eq!((door.guests_max, door.angle, door.locked), (10, 1.5, true));
    assert_eq!(door.luggage_max, ByteSize(2 << 20));
    assert_eq!((door.password, door.bell), (None, Bell::Single));
    assert_eq!(door.names, ["smith"]);
    assert_eq!(door.key, PathBuf::from("under/the/mat"));
    assert_eq!(loaded.section::<LettersConfig>().letters_max, 5);
}

#[test]
fn later_sources_win_and_their_origin_is_kept() {
    let file = "[door]\nguests_max = 20\nbell = \"double\"\nangle = 2\n\n[door.letters]\nletters_max = 7\n";
    let env = [
        ("NAGAYA_DOOR__GUESTS_MAX", "30"),
        ("NAGAYA_DOOR__BELL", "single"),
        ("HOME", "/"),
    ];
    let loaded = load(file, &env, &[("door.guests_max", "40")]).unwrap();
    let door: DoorConfig = loaded.section();
    assert_eq!((door.guests_max, door.bell, door.angle), (40, Bell::Single, 2.0));
    assert_eq!(loaded.section::<LettersConfig>().letters_max, 7);
    let origin = |key: &str| loaded.origin(key).unwrap().to_string();
    assert_eq!(origin("door.guests_max"), "flag --set");
    assert_eq!(origin("door.bell"), "environment NAGAYA_DOOR__BELL");
    assert_eq!(origin("door.angle"), "house.toml:4");
    assert_eq!(origin("door.letters.letters_max"), "house.toml:7");
    assert_eq!(loaded.origin("door.locked"), Some(&Origin::Default));
}

#[test]
fn every_problem_of_every_source_is_in_the_one_error() {
    refused(
        "[door]\nlisen = \"x\"\nguests_max = 0\nopen_for = 5\n[dor]\nx = 1\n",
        &[
            ("NAGAYA_DOOR__LOCKED", "perhaps"),
            ("NAGAYA_DOOR__LISTENS", "x"),
            ("NAGAYA_OTHER", "x"),
        ],
        &[("door.bel", "double"), ("door.bell", "duoble")],
        &[
            "house.toml:2: unknown key `door.lisen`; did you mean `door.listen`?",
            "house.toml:3: `door.guests_max` is 0, allowed are 1 to 1000 guests",
            "house.toml:4: `door.open_for` must be a duration such as \"5s\" (ms, s, m, h, d), found 5",
            "house.toml:5: unknown section `[dor]`; did you mean `[door]`?",
            "environment NAGAYA_DOOR__LISTENS: no setting has this name; did you mean NAGAYA_DOOR__LISTEN?",
            "environment NAGAYA_DOOR__LOCKED: `door.locked` must be true or false, found \"perhaps\"",
            "flag --set: unknown key `door.bel`; did you mean `door.bell`?",
            "flag --set: `door.bell` must be one of single, double, found \"duoble\"; \
             did you mean \"double\"?",
        ],
    );
}

#[test]
fn a_broken_file_names_the_line() {
    let error = load("[door]\nlisten = \n", &[], &[]).err().unwrap();
    assert!(
        error.to_string().starts_with("house.toml:2: not valid TOML: "),
        "{error}"
    );
}

#[test]
fn a_number_too_large_for_its_type_is_out_of_range() {
    let limit = "`door.guests_max` is 70000, allowed are 1 to 1000 guests";
    refused(
        "door.guests_max = 70000",
        &[],
        &[],
        &[&format!("house.toml:1: {limit}")],
    );
    let words = "flag --set: `door.guests_max` is \"70000\", allowed are 1 to 1000 guests";
    refused("", &[], &[("door.guests_max", "70000")], &[words]);
}

#[test]
fn a_table_in_place_of_a_value_is_a_wrong_type() {
    refused(
        "[door]\nlocked = { a = 1 }\n[[door.names]]\na = 1\n",
        &[],
        &[],
        &[
            "house.toml:2: `door.locked` must be true or false, found a table",
            "house.toml:3: `door.names` must be a list of strings (with commas between them outside TOML), \
             found a list of tables",
        ],
    );
}

#[test]
fn keys_outside_any_section_are_unknown() {
    refused("listen = 1", &[], &[], &["house.toml:1: unknown key `listen`"]);
}

#[test]
fn secrets_are_hidden_where_values_are_shown_and_where_they_are_wrong() {
    let loaded = load("[door]\npassword = \"hunter2\"\n", &[], &[]).unwrap();
    let shown: Vec<_> = loaded.entries().map(|entry| entry.shown.to_string()).collect();
    assert!(shown.contains(&"\"***\"".to_owned()) && !shown.concat().contains("hunter2"));
    let door: DoorConfig = loaded.section();
    assert!(!format!("{door:?}").contains("hunter2"));
    refused(
        "door.password = 12345",
        &[],
        &[],
        &["house.toml:1: `door.password` must be a secret string, found another kind of value"],
    );
}

#[test]
fn only_flags_make_a_usage_error() {
    assert!(load("", &[], &[("x.y", "1")]).err().unwrap().is_usage());
    assert!(!load("a = 1", &[], &[("x.y", "1")]).err().unwrap().is_usage());
}

#[test]
fn one_underscore_too_few_is_told_with_the_right_name() {
    let mut loader = Loader::new(&sections());
    loader.env([
        ("NAGAYA_DOOR_LOCKED".to_owned(), "true".to_owned()),
        ("NAGAYA_DOOR_GUESTS_MAX".to_owned(), "3".to_owned()),
        ("NAGAYA_TOKEN".to_owned(), "secret".to_owned()),
    ]);
    let error = loader.finish().map(drop).unwrap_err().to_string();
    for part in [
        "NAGAYA_DOOR_LOCKED",
        "did you mean NAGAYA_DOOR__LOCKED?",
        "did you mean NAGAYA_DOOR__GUESTS_MAX?",
    ] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    assert!(
        !error.contains("NAGAYA_TOKEN") && !error.contains("secret"),
        "{error}"
    );
    let mut loader = Loader::new(&sections());
    loader.env([("NAGAYA_TOKEN".to_owned(), "secret".to_owned())]);
    assert_eq!(loader.finish().unwrap().ignored_variables(), ["NAGAYA_TOKEN"]);
}
