//! `nagaya ids init`, `stats`, `list`, `decode` and `audit`.

use super::*;
use nagaya_testkit::{Redis, Reply};
use serde_json::Value;

/// An id of the default layout: worker 5, sequence 7, 2026-01-01T00:00:00.000Z.
const SAMPLE_ID: &str = "1456074443980820487";

fn ids(redis: &Redis, args: &[&str]) -> Ran {
    let url = format!("{}/0?ns=yaraus", redis.url());
    let mut words = vec!["ids", args[0], "--redis", &url];
    words.extend(&args[1..]);
    run(words)
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_pool_is_made_once() {
    let redis = Redis::start();
    let ran = ids(&redis, &["init", "-min", "1", "-max", "1023"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "the pool yaraus has the numbers 1 to 1023\n");
    assert_eq!(redis.cmd(&["ZCARD", "yaraus:ids"]).int(), 1023);
    assert_eq!(
        redis.cmd(&["ZRANGE", "yaraus:ids", "0", "0"]).items(),
        [Reply::bulk("A1")]
    );
    assert!(ran.stderr.contains("--unused"), "{}", ran.stderr);
    let again = ids(&redis, &["init"]);
    assert_eq!(again.code, Some(1));
    assert!(
        again.stderr.contains("already initialized with 1 to 1023"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_pool_grows_and_shrinks_over_unused_numbers() {
    let redis = Redis::start();
    assert_eq!(ids(&redis, &["init", "--max", "10"]).code, Some(0));
    let grown = ids(&redis, &["init", "--grow", "--max", "20"]);
    assert_eq!(grown.stdout, "the pool yaraus has the numbers 1 to 20\n");
    let not_wider = ids(&redis, &["init", "--grow", "--max", "15"]);
    assert_eq!(not_wider.code, Some(1));
    assert!(
        not_wider.stderr.contains("it can only grow"),
        "{}",
        not_wider.stderr
    );
    let shrunk = ids(&redis, &["init", "--shrink", "--max", "5"]);
    assert_eq!(shrunk.code, Some(0), "{}", shrunk.stderr);
    assert_eq!(redis.cmd(&["ZCARD", "yaraus:ids"]).int(), 5);
    assert_eq!(ids(&redis, &["init", "--grow", "--shrink"]).code, Some(2));
}

#[test]
fn a_missing_pool_is_told_with_its_remedy() {
    let redis = Redis::start();
    for command in ["stats", "list"] {
        let ran = ids(&redis, &[command]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("nagaya ids init"), "{}", ran.stderr);
    }
    let ran = ids(&redis, &["init", "--grow"]);
    assert!(ran.stderr.contains("is not initialized"), "{}", ran.stderr);
}

#[test]
fn stats_and_list_have_yarauss_names() {
    let redis = Redis::start();
    ids(&redis, &["init", "--max", "3"]);
    let stats = json(&ids(&redis, &["stats", "--json"]));
    for name in ["client_get_id_count", "get_id_no_available_id", "using_ttl_max"] {
        assert_eq!(stats[name].as_f64(), Some(0.0), "{name}");
    }
    assert_eq!(
        (&stats["using_ids"], &stats["unusing_ids"]),
        (&0.into(), &3.into())
    );
    let list = json(&ids(&redis, &["list", "--json"]));
    let numbers: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(
        (&list[0]["using"], &list[0]["client_id"]),
        (&false.into(), &"".into())
    );
    let table = ids(&redis, &["stats"]);
    assert!(table.stdout.contains("1 to 3"), "{}", table.stdout);
    let table = ids(&redis, &["list", "--all"]);
    assert_eq!(table.stdout.lines().count(), 4, "{}", table.stdout);
}

#[test]
fn nothing_running_is_said_with_both_remedies() {
    let folder = nagaya_testkit::Folder::new("nobody");
    let data = folder.path().to_str().unwrap();
    for command in [&["ids", "list"][..], &["ids", "run", "true"], &["ids", "serve"]] {
        let ran = run_with(command, &[("NAGAYA_HOUSE__DATA", data)]);
        assert_eq!(ran.code, Some(1), "{command:?}");
        let told = ["nothing answers", data, "nagaya up", "--redis"];
        assert!(
            told.iter().all(|word| ran.stderr.contains(word)),
            "{}",
            ran.stderr
        );
    }
    let ran = run(["ids", "list", "--redis", "http://x"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--redis cannot be used"), "{}", ran.stderr);
}

#[test]
fn an_id_is_explained() {
    let ran = run(["ids", "decode", SAMPLE_ID]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("2026-01-01T00:00:00.000Z"), "{}", ran.stdout);
    let decoded = json(&run(["ids", "decode", "--json", SAMPLE_ID]));
    assert_eq!(decoded[0]["id"], SAMPLE_ID);
    assert_eq!(
        (&decoded[0]["worker"], &decoded[0]["sequence"]),
        (&5.into(), &7.into())
    );
    let other_epoch = run_with(
        ["ids", "decode", SAMPLE_ID],
        &[("NAGAYA_IDS__EPOCH_MS", "1388534400000")],
    );
    assert!(
        other_epoch.stdout.contains("2025-01-01T"),
        "{}",
        other_epoch.stdout
    );
    let ran = run(["ids", "decode", "x"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("is not an id"), "{}", ran.stderr);
}

#[test]
fn a_list_without_duplicates_passes_and_one_with_does_not() {
    let folder = Folder::new("audit");
    let next = (SAMPLE_ID.parse::<u64>().unwrap() + 1).to_string();
    let good = folder.write("good.txt", &format!("{SAMPLE_ID}\n{next}\n"));
    let ran = run(["ids".as_ref(), "audit".as_ref(), good.as_os_str()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("no duplicates"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "", "progress is for terminals");
    let bad = folder.write("bad.txt", &format!("{SAMPLE_ID}\n{next}\n{SAMPLE_ID}\n"));
    let bad = bad.to_str().unwrap();
    let ran = run(["ids", "audit", bad]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("1 DUPLICATES"), "{}", ran.stdout);
    let ran = run(["ids", "audit", "--json", bad]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&report["clean"], &report["duplicates"]),
        (&false.into(), &1.into())
    );
    let log = format!("GET /x id={SAMPLE_ID}\nGET /y id={next} parent={SAMPLE_ID}\n");
    let log = folder.write("app.log", &log);
    let ran = run(["ids", "audit", "--field", "id", log.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let ran = run(["ids", "audit", "nowhere.txt"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot open nowhere.txt"), "{}", ran.stderr);
}
