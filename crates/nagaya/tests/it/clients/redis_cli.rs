//! redis-cli: single commands, a script from standard input, mass insertion, and its own modes.

use super::*;

#[track_caller]
fn cli<A: AsRef<OsStr>>(scenario: &Scenario, args: impl IntoIterator<Item = A>) -> String {
    let folder = Folder::new("cli");
    let launch = Launch::new("redis-cli", "redis-cli")
        .args(["-p", &scenario.port()])
        .args(args);
    let process = match Process::start(launch, folder.path()) {
        Ok(process) => process,
        Err(error) => panic!("{error}; scripts/test installs what is missing"),
    };
    let status = process.wait(SCENARIO_LIMIT).unwrap();
    assert!(status.success(), "{status}:\n{}", process.output());
    process.stdout()
}

/// Deletes what a test has left, so that the next one counts only its own.
#[track_caller]
fn clean_up(scenario: &Scenario) {
    let delete = "redis-cli -p PORT --scan | xargs -r -n 1000 redis-cli -p PORT DEL";
    let command = delete.replace("PORT", &scenario.port());
    scenario.run(Launch::new("sh", "sh").args(["-c", &command]));
    assert_eq!(cli(scenario, ["DBSIZE"]), "0\n");
}

/// Feeds a file to redis-cli's standard input, by way of the shell.
#[track_caller]
fn feed(scenario: &Scenario, flags: &str, input: &str) -> String {
    let input = scenario.folder.write("input", input);
    let command = format!("redis-cli -p {} {flags} <'{}'", scenario.port(), input.display());
    scenario.run(Launch::new("sh", "sh").args(["-c", &command]))
}

#[track_caller]
fn replies(scenario: &Scenario) {
    let check = |args: &[&str], expected: &str| assert_eq!(cli(scenario, args), expected, "{args:?}");
    check(&["SET", "key", "value"], "OK\n");
    check(&["GET", "key"], "value\n");
    check(&["--no-raw", "GET", "none"], "(nil)\n");
    check(&["--no-raw", "RPUSH", "list", "a", "b"], "(integer) 2\n");
    check(&["--no-raw", "LRANGE", "list", "0", "-1"], "1) \"a\"\n2) \"b\"\n");
    check(
        &["--no-raw", "INCR", "list"],
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value\n",
    );
    check(&["-3", "--no-raw", "HGETALL", "none"], "(empty hash)\n");
    check(&["--csv", "LRANGE", "list", "0", "-1"], "\"a\",\"b\"\n");
    check(&["-n", "0", "PING"], "PONG\n");
}

#[track_caller]
fn standard_input(scenario: &Scenario) {
    let input = "MULTI\nSET a 1\nINCR a\nEXEC\nGET a\nEVAL \"return ARGV[1]\" 0 hello\n";
    assert_eq!(feed(scenario, "", input), "OK\nQUEUED\nQUEUED\nOK\n2\n2\nhello\n");
}

#[track_caller]
fn mass_insertion(scenario: &Scenario) {
    let set = |number: u32| format!("*3\r\n$3\r\nSET\r\n$8\r\nkey{number:05}\r\n$1\r\nx\r\n");
    let input: String = (0..20_000).map(set).collect();
    let printed = feed(scenario, "--pipe", &input);
    assert!(printed.contains("errors: 0, replies: 20000"), "{printed}");
    assert_eq!(cli(scenario, ["DBSIZE"]), "20000\n");
    let keys = cli(scenario, ["--scan", "--pattern", "key0001?"]);
    assert_eq!(keys.lines().count(), 10, "{keys}");
}

#[track_caller]
fn surveys(scenario: &Scenario) {
    let input: String = (0..500)
        .map(|number| format!("RPUSH list{number} a b c\nSET key{number} x\n"))
        .collect();
    feed(scenario, "", &input);
    let big = cli(scenario, ["--bigkeys", "-i", "0"]);
    assert!(big.contains("Sampled 1000 keys in the keyspace!"), "{big}");
    let memory = cli(scenario, ["--memkeys", "-i", "0"]);
    assert!(memory.contains("Sampled 1000 keys in the keyspace!"), "{memory}");
    let info = cli(scenario, ["INFO", "server"]);
    assert!(info.contains(scenario.redis_version()), "{info}");
}

#[test]
fn replies_are_printed_as_with_redis() {
    replies(&Scenario::new());
}

#[test]
fn commands_from_standard_input_run_in_order() {
    standard_input(&Scenario::new());
}

#[test]
fn mass_insertion_takes_raw_protocol() {
    mass_insertion(&Scenario::new());
}

#[test]
fn its_own_surveys_run() {
    surveys(&Scenario::new());
}

#[test]
fn all_of_it_passes_on_a_cluster_and_postgresql() {
    let scenario = Scenario::on_cluster();
    for test in [replies, standard_input, surveys, mass_insertion] {
        clean_up(&scenario);
        test(&scenario);
    }
}
