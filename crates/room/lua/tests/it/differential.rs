//! The same scripts through us and through a real redis-server; replies must be equal byte for byte.

use nagaya_resp::Proto;

use crate::support::{Bench, connect, start_redis};

const SCRIPTS: &str = include_str!("scripts.lua");

/// Scripts are separated by lines of dashes.
fn scripts() -> Vec<&'static str> {
    SCRIPTS
        .split("\n----\n")
        .map(str::trim)
        .filter(|script| !script.is_empty())
        .collect()
}

fn compare(name: &str, script: &str, ours: &[u8], theirs: &[u8], differences: &mut Vec<String>) {
    if ours != theirs {
        let show = |bytes: &[u8]| {
            bytes
                .escape_ascii()
                .to_string()
                .chars()
                .take(400)
                .collect::<String>()
        };
        let (us, them) = (show(ours), show(theirs));
        differences.push(format!(
            "{name}: {script}\n   ours ({} bytes): {us}\n  redis ({} bytes): {them}",
            ours.len(),
            theirs.len()
        ));
    }
}

fn report(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn eval_replies_equal_those_of_redis_in_both_protocols() {
    let server = start_redis();
    let mut differences = Vec::new();
    assert!(scripts().len() >= 200, "only {} scripts", scripts().len());
    for (proto, version) in [(Proto::Resp2, "2"), (Proto::Resp3, "3")] {
        let mut client = connect(&server);
        client.ask(&[b"HELLO", version.as_bytes()]);
        client.ask(&[b"FLUSHALL"]);
        client.ask(&[b"SCRIPT", b"FLUSH"]);
        let mut bench = Bench::new();
        for script in scripts() {
            let theirs = client.ask(&[b"EVAL", script.as_bytes(), b"2", b"k1", b"k2", b"a1", b"3.0"]);
            let ours = bench.eval_bytes(script.as_bytes(), &["k1", "k2"], &["a1", "3.0"], proto);
            compare(
                &format!("EVAL {proto:?}"),
                script,
                &ours,
                &theirs,
                &mut differences,
            );
        }
    }
    report(&differences);
}

#[test]
fn fcall_replies_equal_those_of_redis() {
    let server = start_redis();
    let mut client = connect(&server);
    let mut bench = Bench::new();
    let mut differences = Vec::new();
    // Functions have no KEYS and ARGV globals, so those scripts would differ in text alone.
    for script in scripts().into_iter().filter(|script| !script.starts_with("#!")) {
        let code = format!(
            "#!lua name=test\nredis.register_function('test', function(KEYS, ARGV)\n {script} \nend)"
        );
        let theirs = client.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]);
        match bench.load_library(&code) {
            Ok(_) => {
                compare("LOAD", script, b"$4\r\ntest\r\n", &theirs, &mut differences);
                let theirs = client.ask(&[b"FCALL", b"test", b"0"]);
                let ours = bench.fcall("test", Proto::Resp2);
                compare("FCALL", script, &ours, &theirs, &mut differences);
            }
            Err(error) => {
                compare(
                    "LOAD",
                    script,
                    format!("-ERR {error}\r\n").as_bytes(),
                    &theirs,
                    &mut differences,
                );
            }
        }
    }
    report(&differences);
}
