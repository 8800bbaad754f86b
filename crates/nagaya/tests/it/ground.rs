//! The data folder taken away from under a running server: nothing is called safe that is lost.

use std::fs;
use std::net::SocketAddr;

use nagaya_testkit::{Nagaya, Reply, RespClient, wait};
use serde_json::Value;

use super::{LIMIT, house, read_all, send};

/// The line that tells of the loss.
const LINE: &str = "the data folder is lost";

fn connect(house: &Nagaya) -> RespClient {
    let client = RespClient::connect(house.address("room")).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

fn post(address: SocketAddr, path: &str, body: &str) -> u16 {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = read_all(&mut send(address, &request));
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn enqueue(house: &Nagaya) -> u16 {
    post(
        house.address("http"),
        "/v1/jobs",
        r#"{"queue":"mail","payload":{"to":"a"}}"#,
    )
}

fn readyz(house: &Nagaya) -> (u16, Value) {
    let answer = house.get("/readyz").unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

/// The components that `/readyz` calls failed, with their reasons.
fn failed(house: &Nagaya) -> Vec<(String, String)> {
    let (_, readyz) = readyz(house);
    let components = readyz["components"].as_array().unwrap();
    let failed = components
        .iter()
        .filter(|component| component["state"] == "failed");
    let words = |component: &Value, name: &str| component[name].as_str().unwrap_or_default().to_owned();
    failed
        .map(|component| (words(component, "name"), words(component, "detail")))
        .collect()
}

#[track_caller]
fn wait_until_lost(house: &Nagaya) {
    wait::until("the server is not ready", LIMIT, || readyz(house).0 == 503);
}

#[track_caller]
fn assert_misconf(reply: &Reply) {
    let error = reply.error().unwrap_or_default();
    assert!(error.starts_with("MISCONF"), "{reply:?}");
}

/// A server with all services, on its own data.
fn full_house() -> Nagaya {
    house()
        .listener("ids")
        .listener("fanout")
        .args([
            "--set",
            "fleet.enabled=true",
            "--set",
            "fleet.app=crew",
            "--set",
            "fanout.endpoints=a=http://127.0.0.1:1/",
        ])
        .start()
}

#[test]
fn a_removed_data_folder_makes_every_service_that_keeps_files_there_fail() {
    let house = full_house();
    let mut client = connect(&house);
    assert_eq!(client.cmd(&["SET", "{u}a", "1"]).unwrap(), Reply::ok());
    assert_eq!(enqueue(&house), 201);
    fs::remove_dir_all(house.data()).unwrap();
    wait_until_lost(&house);
    let lost = failed(&house);
    let names: Vec<&str> = lost.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["room", "backroom", "ids", "fleet", "jobs", "fanout"]);
    for (name, reason) in &lost {
        assert!(reason.contains("is gone"), "{name}: {reason}");
    }
    // What is in memory can still be read and taken elsewhere.
    assert_eq!(client.cmd(&["GET", "{u}a"]).unwrap(), Reply::bulk("1"));
    for write in [
        &["SET", "{u}b", "2"][..],
        &["SAVE"],
        &["BGSAVE"],
        &["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "{u}c"],
    ] {
        let reply = client.cmd(write).unwrap();
        assert!(reply.text().contains("MISCONF"), "{write:?}: {reply:?}");
    }
    assert_eq!(enqueue(&house), 503);
    assert_eq!(post(house.address("http"), "/v1/queues/mail/pause", "{}"), 503);
    // A folder that comes back brings nothing back.
    fs::create_dir(house.data()).unwrap();
    assert_misconf(&client.cmd(&["SET", "{u}b", "2"]).unwrap());
    assert_eq!(enqueue(&house), 503);
    assert_eq!(readyz(&house).0, 503);
    let ended = house.shut_down();
    assert!(!ended.success(), "data was lost");
    let left = fs::read_dir(house.data()).unwrap().count();
    assert_eq!(left, 0, "nothing is written into a folder that is not ours");
    let log = house.process().stderr();
    assert_eq!(log.matches(LINE).count(), 1, "{log}");
}

#[test]
fn a_data_folder_with_another_in_its_place_is_lost_and_the_other_is_left_alone() {
    let house = house().start();
    let mut client = connect(&house);
    let aside = house.data().with_file_name("aside");
    fs::rename(house.data(), &aside).unwrap();
    fs::create_dir(house.data()).unwrap();
    fs::write(house.data().join("nagaya.lock"), "of another").unwrap();
    wait_until_lost(&house);
    assert!(failed(&house)[0].1.contains("was replaced by another"));
    assert_misconf(&client.cmd(&["SET", "a", "1"]).unwrap());
    assert_eq!(enqueue(&house), 503);
    // Back in its place, it is still lost until a restart.
    fs::remove_dir_all(house.data()).unwrap();
    fs::rename(&aside, house.data()).unwrap();
    assert_misconf(&client.cmd(&["SET", "a", "1"]).unwrap());
    assert!(!house.shut_down().success());
    house.restart();
    let mut client = connect(&house);
    assert_eq!(client.cmd(&["SET", "a", "1"]).unwrap(), Reply::ok());
    assert_eq!(enqueue(&house), 201);
    assert!(house.shut_down().success());
}

#[test]
fn a_replaced_lock_file_means_that_another_process_may_use_the_folder() {
    let house = house().start();
    let lock = house.data().join("nagaya.lock");
    fs::write(house.data().join("other"), "of another").unwrap();
    fs::rename(house.data().join("other"), &lock).unwrap();
    wait_until_lost(&house);
    assert_misconf(&connect(&house).cmd(&["SET", "a", "1"]).unwrap());
    assert_eq!(enqueue(&house), 503);
    assert!(!house.shut_down().success());
    assert_eq!(fs::read_to_string(&lock).unwrap(), "of another");
}

#[test]
fn files_of_one_service_alone_are_missed() {
    for part in ["room/log", "room/cold.sqlite", "jobs"] {
        let house = house().start();
        let path = house.data().join(part);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.unwrap();
        wait_until_lost(&house);
        let lost = failed(&house);
        assert!(lost[0].1.contains(part), "{part}: {lost:?}");
        assert_misconf(&connect(&house).cmd(&["SET", "a", "1"]).unwrap());
        assert_eq!(enqueue(&house), 503, "{part}");
    }
}

#[test]
fn nothing_is_called_saved_in_the_moment_after_the_loss() {
    let house = house().args(["--set", "room.fsync=always"]).start();
    let mut client = connect(&house);
    assert_eq!(client.cmd(&["SET", "a", "1"]).unwrap(), Reply::ok());
    assert_eq!(client.cmd(&["SAVE"]).unwrap(), Reply::ok());
    let mut other = connect(&house);
    assert_eq!(other.cmd(&["PING"]).unwrap(), Reply::Simple("PONG".into()));
    fs::remove_dir_all(house.data()).unwrap();
    // No waiting: each of these looks for itself.
    assert_misconf(&client.cmd(&["SAVE"]).unwrap());
    let written = other.cmd(&["SET", "a", "2"]);
    let refused = match &written {
        // A write whose fate is unknown is answered by the end of the connection.
        Err(_) => true,
        Ok(reply) => reply.error().is_some(),
    };
    assert!(refused, "{written:?}");
    assert_eq!(enqueue(&house), 503);
}
