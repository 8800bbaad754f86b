//! The sample files of `docs/deploy` are taken by the programs that they are for.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy")
}

/// Runs another program to its end in a folder.
#[track_caller]
fn tool(folder: &Folder, program: &str, args: &[&str]) -> Ran {
    let launch = Launch::new("tool", program).args(args);
    match Process::start(launch, folder.path()) {
        Ok(process) => finish(process),
        Err(error) => panic!("{error}; scripts/test installs what is missing"),
    }
}

#[test]
fn the_sample_settings_of_three_machines_are_valid() {
    let secrets = [
        ("NAGAYA_HTTP__TOKEN", "a-token-of-sixteen"),
        ("NAGAYA_ROOM__PASSWORD", "b"),
        ("NAGAYA_FANOUT__TOKEN", "c-token-of-sixteen"),
        (
            "NAGAYA_HOUSE__REDIS",
            "redis+cluster://nagaya:p@10.0.0.1:7001,10.0.0.2:7001,10.0.0.3:7001",
        ),
        (
            "NAGAYA_HOUSE__POSTGRES",
            "postgres://nagaya:p@10.0.0.3/nagaya?sslmode=require",
        ),
    ];
    for name in ["one.toml", "two.toml", "three.toml"] {
        let path = deploy().join(name);
        let ran = run_with(
            [
                "--config".as_ref(),
                path.as_os_str(),
                "config".as_ref(),
                "check".as_ref(),
            ],
            &secrets,
        );
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    }
}

#[test]
fn nginx_takes_its_sample() {
    let folder = Folder::new("nginx-sample");
    let keys = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=nagaya.example.com";
    let made = tool(&folder, "openssl", &keys.split(' ').collect::<Vec<_>>());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let here = folder.path().display().to_string();
    let sample = fs::read_to_string(deploy().join("nginx.conf")).unwrap();
    let sample = sample
        .replace("/etc/nagaya/tls", &here)
        .replace("/var/log/nginx", &here);
    let config = folder.write(
        "nginx.conf",
        &format!("pid {here}/pid;\nerror_log {here}/error.log;\n{sample}"),
    );
    let checked = tool(
        &folder,
        "/usr/sbin/nginx",
        &["-t", "-c", config.to_str().unwrap()],
    );
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(!checked.stderr.contains("[warn]"), "{}", checked.stderr);
}

/// What each unit calls after `nagaya`, with `%i` and the like as systemd would fill them in.
fn commands(unit: &str) -> Vec<String> {
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/nagaya "));
    lines
        .map(|line| line.replace("%i", "mail").replace("%H", "one"))
        .collect()
}

/// The words of a command line, of which some are in quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec!["nagaya".to_owned()];
    for (index, part) in command.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn units_call_commands_that_are_there() {
    let mut units = 0;
    for entry in fs::read_dir(deploy()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "service") {
            continue;
        }
        let unit = fs::read_to_string(&path).unwrap();
        let commands = commands(&unit);
        assert_eq!(commands.len(), 1, "{}", path.display());
        for command in commands {
            if let Err(error) = nagaya::command_line().try_get_matches_from(words(&command)) {
                panic!("{}: {error}", path.display());
            }
        }
        units += 1;
    }
    assert_eq!(units, 4);
}

#[test]
fn systemd_takes_the_units() {
    let folder = Folder::new("units");
    let mut names = Vec::new();
    for entry in fs::read_dir(deploy()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".service") {
            let unit = fs::read_to_string(&path).unwrap();
            folder.write(&name, &unit.replace("/usr/local/bin/nagaya", BINARY));
            names.push(format!("./{name}"));
        }
    }
    let words: Vec<&str> = std::iter::once("verify")
        .chain(names.iter().map(String::as_str))
        .collect();
    let launch = Launch::new("tool", "systemd-analyze").args(&words);
    // Systems without systemd have nothing to check them with.
    let Ok(process) = Process::start(launch, folder.path()) else {
        return;
    };
    let ran = finish(process);
    assert_eq!((ran.code, ran.stderr.trim()), (Some(0), ""));
}
