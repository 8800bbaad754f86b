//! What `packaging` has is taken by the programs that it is for.

use super::*;
use crate::clients::installed;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Compressing a binary with debug information takes a while on a busy machine.
const RELEASE_LIMIT: Duration = Duration::from_secs(180);

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The systemd units by name.
fn units() -> Vec<(String, String)> {
    let entries = fs::read_dir(packaging().join("systemd")).unwrap();
    let units: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    assert_eq!(units.len(), 4);
    units
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
        let path = packaging().join("three-machines").join(name);
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
    let sample = fs::read_to_string(packaging().join("three-machines/nginx.conf")).unwrap();
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

/// What a unit calls after `nagaya`, with `%i` and the like as systemd would fill them in.
fn command(unit: &str, state: &str) -> String {
    let mut lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/nagaya "));
    let line = lines.next().unwrap();
    assert_eq!(lines.next(), None);
    line.replace("%i", "mail")
        .replace("%H", "one")
        .replace("${STATE_DIRECTORY}", state)
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
    for (name, unit) in units() {
        let words = words(&command(&unit, "/var/lib/nagaya"));
        if let Err(error) = nagaya::command_line().try_get_matches_from(words) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn systemd_takes_the_units() {
    let folder = Folder::new("units");
    let mut names = Vec::new();
    for (name, unit) in units() {
        folder.write(&name, &unit.replace("/usr/local/bin/nagaya", BINARY));
        names.push(format!("./{name}"));
    }
    let words: Vec<&str> = ["verify", "--man=no"]
        .into_iter()
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

#[test]
fn the_unit_needs_nothing_but_the_binary() {
    let folder = Folder::new("unit");
    let unit = fs::read_to_string(packaging().join("systemd/nagaya.service")).unwrap();
    for line in ["Type=notify", "DynamicUser=yes", "StateDirectory=nagaya"] {
        assert!(unit.lines().any(|found| found == line), "{line} is missing");
    }
    // A dash before a file means that it may be missing.
    let mut files = unit
        .lines()
        .filter_map(|line| line.strip_prefix("EnvironmentFile="));
    assert!(files.all(|file| file.starts_with('-')), "{unit}");
    let state = folder.path().join("state");
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let words = words(&command(&unit, state.to_str().unwrap()));
    let mut launch = Launch::new("unit", BINARY)
        .args(&words[1..])
        .env("NOTIFY_SOCKET", folder.path().join("notify"));
    for section in ["HTTP", "ROOM", "IDS", "FANOUT"] {
        launch = launch.env(format!("NAGAYA_{section}__LISTEN"), "127.0.0.1:0");
    }
    let before = fs::read_dir(folder.path()).unwrap().count();
    let process = Process::start(launch, folder.path()).unwrap();
    let mut bytes = [0; 64];
    let length = match manager.recv(&mut bytes) {
        Ok(length) => length,
        Err(error) => panic!("systemd would wait in vain: {error}\n{}", process.output()),
    };
    assert_eq!(&bytes[..length], b"READY=1");
    assert!(state.join("nagaya.lock").exists(), "{}", process.output());
    process.terminate();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.output());
    let new = fs::read_dir(folder.path()).unwrap().count() - before;
    assert!(!folder.path().join("nagaya-data").exists() && new >= 1);
}

/// Runs `packaging/check.py` on the binary and these files.
#[track_caller]
fn check_packaging(folder: &Folder, files: &[&Path]) {
    let launch = Launch::new("check", "python3")
        .args([packaging().join("check.py").as_path(), Path::new(BINARY)])
        .args(files)
        .env("PYTHONPATH", installed("packaging"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let process = Process::start(launch, folder.path()).unwrap();
    let status = process.wait(RELEASE_LIMIT).unwrap();
    assert!(status.success(), "{}", process.output());
}

#[test]
fn a_release_has_all_that_it_promises() {
    let folder = Folder::new("release");
    let script = packaging().join("../scripts/release");
    let out = folder.path().join("out");
    let words = ["--out", out.to_str().unwrap(), "--binary", BINARY];
    let process = Process::start(Launch::new("release", script).args(words), folder.path()).unwrap();
    let status = process.wait(RELEASE_LIMIT).unwrap();
    assert!(status.success(), "{}", process.output());
    let unpacked = "cd out && sha256sum --check --strict SHA256SUMS && tar xzf nagaya-*.tar.gz \
        && cd nagaya-*/ && ./nagaya --version && ls -R";
    let listed = tool(&folder, "sh", &["-c", unpacked]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let version = concat!("nagaya ", env!("CARGO_PKG_VERSION"));
    for name in [
        version,
        "LICENSE-MIT",
        "nagaya.sample.toml",
        "nagaya.service",
        "nagaya.bash",
        "nagaya.1",
        "nagaya-jobs-work.1",
    ] {
        let is_there = listed.stdout.lines().any(|line| line == name);
        assert!(is_there, "{name} is missing in\n{}", listed.stdout);
    }
    let mut entries = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let bill = entries.find(|path| path.to_string_lossy().ends_with(".cdx.json"));
    check_packaging(&folder, &[&bill.unwrap()]);
}
