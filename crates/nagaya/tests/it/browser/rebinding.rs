//! A web page tries to command an open server by DNS rebinding and from its own origin, in a real browser.

use super::*;
use crate::fanout_serve::Endpoint;
use nagaya_testkit::RespClient;
use serde_json::Value;

#[test]
fn a_page_in_a_browser_reads_and_changes_nothing() {
    let endpoint = Endpoint::start("one");
    let house = house()
        .listener("fanout")
        .args(["--set", &format!("fanout.endpoints=a={}", endpoint.url)]);
    let scenario = Scenario::with(house);
    let house = &scenario.house;
    let mut redis = RespClient::connect(house.address("room")).unwrap();
    redis.cmd(&["SET", "{t}:name", "alice"]).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/browser/rebinding.js");
    let launch = Launch::new("browser", "node")
        .args([script])
        .args(["http", "fanout"].map(|listener| format!("http://{}", house.address(listener))))
        .env("NODE_PATH", installed("node").join("node_modules"));
    scenario.run(launch);
    assert_eq!(redis.cmd(&["GET", "{t}:name"]).unwrap().text(), "alice");
    let read = |path: &str| -> Value { serde_json::from_str(&house.get(path).unwrap().body).unwrap() };
    assert_eq!(read("/v1/tokens")["tokens"].as_array().unwrap().len(), 0);
    assert_eq!(read("/v1/jobs")["jobs"].as_array().unwrap().len(), 0);
    assert_eq!(
        read("/v1/fanout/requests")["requests"].as_array().unwrap().len(),
        0
    );
}
