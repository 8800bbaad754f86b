//! What `up` says when it cannot start, and that it leaves nothing behind.

use super::*;
use nagaya_testkit::User;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_second_house_on_one_data_folder_is_told_who_holds_it() {
    let first = house().start();
    let pid = first.process().pid().unwrap();
    let second = run([
        "up",
        "--http-listen",
        "127.0.0.1:0",
        "--data",
        first.data().to_str().unwrap(),
    ]);
    assert_eq!(second.code, Some(1));
    assert!(
        second
            .stderr
            .contains(&format!("in use by another nagaya (pid {pid})")),
        "{}",
        second.stderr
    );
    assert!(second.stderr.contains("--data"), "{}", second.stderr);
    assert_eq!(first.get("/readyz").unwrap().status, 200);
    assert!(first.data().join("nagaya.lock").exists());
}

#[test]
fn a_taken_port_names_the_flag_that_moves_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = Folder::new("taken");
    let data = folder.path().join("deep/data");
    let ran = run([
        "up",
        "--fanout-listen",
        "127.0.0.1:0",
        "--http-listen",
        &address,
        "--data",
        data.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains(&address) && ran.stderr.contains("--http-listen"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn a_taken_port_leaves_an_existing_data_folder_as_it_was() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = Folder::new("taken");
    let ran = run([
        "up",
        "--http-listen",
        &address,
        "--data",
        folder.path().to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn a_broken_config_is_refused_whole_before_anything_is_made() {
    let folder = Folder::new("broken");
    let config = folder.write(
        "house.toml",
        "[http]\nlisen = \"127.0.0.1:0\"\nconnections_max = 0\n",
    );
    let config = config.to_str().unwrap();
    let data = folder.path().join("data");
    let ran = run_with(
        ["--config", config, "up", "--data", data.to_str().unwrap()],
        &[("NAGAYA_HTTP__HEAD_TIMEOUT", "soon")],
    );
    assert_eq!(ran.code, Some(1));
    for line in [
        "the configuration has 3 problems",
        &format!("{config}:2: unknown key `http.lisen`; did you mean `http.listen`?"),
        &format!("{config}:3: `http.connections_max` is 0, allowed are 1 to 1000000 connections"),
        "environment NAGAYA_HTTP__HEAD_TIMEOUT: `http.head_timeout` must be a duration",
    ] {
        assert!(ran.stderr.contains(line), "{line} is missing in\n{}", ran.stderr);
    }
    assert!(!data.exists());
}

#[test]
fn a_missing_config_file_is_named() {
    let ran = run(["--config", "nowhere.toml", "up"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("cannot read the config file nowhere.toml"),
        "{}",
        ran.stderr
    );
}

/// Permission bits do not bind root, so as root the binary is run as `nobody`, from a copy
/// that `nobody` can reach wherever the repository lies.
#[test]
fn a_read_only_data_folder_is_refused() {
    let folder = Folder::new("readonly");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let binary = folder.path().join("nagaya");
    fs::copy(BINARY, &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
    let nobody = is_root.then_some(User {
        uid: 65_534,
        gid: 65_534,
    });
    for path in [data.clone(), data.join("below")] {
        let launch = Launch::new("nagaya", &binary).user(nobody).args([
            "up",
            "--http-listen",
            "127.0.0.1:0",
            "--data",
            path.to_str().unwrap(),
        ]);
        let ran = finish(Process::start(launch, folder.path()).unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("choose another with --data"),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}

#[test]
fn a_data_folder_that_cannot_exist_is_refused() {
    let folder = Folder::new("unusable");
    let file = folder.write("file", "");
    for path in [file.clone(), file.join("below"), "/proc/nagaya".into()] {
        let ran = run([
            "up",
            "--http-listen",
            "127.0.0.1:0",
            "--data",
            path.to_str().unwrap(),
        ]);
        assert_eq!(ran.code, Some(1), "{}", path.display());
        assert!(
            ran.stderr.contains("cannot make the data folder"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn other_machines_are_not_let_in_without_credentials() {
    let folder = Folder::new("open");
    let data = folder.path().join("data");
    let ran = run([
        "up",
        "--http-listen",
        "0.0.0.0:0",
        "--data",
        data.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("http.token") && ran.stderr.contains("--insecure"),
        "{}",
        ran.stderr
    );
    assert!(!data.exists());
}

#[test]
fn bad_usage_exits_2() {
    for args in [
        vec!["--nonsense"],
        vec!["up", "--set", "novalue"],
        vec!["up", "--set", "http.lisen=127.0.0.1:0"],
        vec!["up", "--log-level", "loud"],
        vec!["config"],
    ] {
        let ran = run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty());
    }
}
