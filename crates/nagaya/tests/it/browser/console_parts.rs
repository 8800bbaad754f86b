//! The console's pages about the room, the fan-out, ids and the fleet.

use super::super::fanout_serve::Endpoint;
use super::super::fleet::Stage;
use super::*;
use nagaya_testkit::wait;

#[test]
fn a_tag_that_was_evicted_is_seen_to_come_back() {
    check(&Scenario::new(), "console_room.js", "evictAndComeBack");
}

#[test]
fn a_tag_is_exported_and_erased_by_its_name() {
    check(&Scenario::new(), "console_room.js", "exportAndErase");
}

#[test]
fn a_request_is_followed_to_every_answer() {
    let endpoints = [Endpoint::start("one"), Endpoint::start("two")];
    let words = format!("fanout.endpoints=a={},b={}", endpoints[0].url, endpoints[1].url);
    // Kept longer than the test takes.
    let lengths = ["--set", "fanout.timeout=5s", "--set", "fanout.expire_in=10m"];
    let house = house().listener("fanout").args(["--set", &words]).args(lengths);
    check(&Scenario::with(house), "console_fanout.js", "answers");
}

#[test]
fn an_id_is_decoded() {
    let scenario = Scenario::with(house().listener("ids"));
    wait::until("ids are made", LIMIT, || {
        let answer = scenario.house.get("/v1/ids");
        answer.is_ok_and(|answer| answer.status == 200)
    });
    check(&scenario, "console_ids.js", "decode");
}

#[test]
fn an_instance_is_drained_while_the_picture_follows() {
    let mut stage = Stage::without_redis(4);
    let list = stage.folder.path().join("list.json");
    let lengths = ["fleet.lease=3s", "fleet.heartbeat=300ms", "fleet.grace=500ms"];
    let house = house()
        .args(["--set", "fleet.app=devices", "--set"])
        .args([format!("fleet.source=file:{}", list.display())])
        .args(lengths.iter().flat_map(|pair| ["--set", pair]));
    let scenario = Scenario::with(house);
    let data = scenario.house.data().to_str().unwrap().to_owned();
    stage.variables.push(("NAGAYA_HOUSE__DATA".to_owned(), data));
    let _agents = [stage.agent("a", &[]), stage.agent("b", &[])];
    wait::until("two run on each", LIMIT, || {
        stage.runs_on("a") == 2 && stage.runs_on("b") == 2
    });
    check(&scenario, "console_fleet.js", "drain");
}
