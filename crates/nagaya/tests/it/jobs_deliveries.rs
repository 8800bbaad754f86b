//! `nagaya jobs deliveries` and `nagaya jobs notify`.

use super::jobs_site::{Chat, Server};
use super::*;
use nagaya_testkit::{free_port, wait};
use serde_json::{Value, json};

/// Runs `nagaya jobs WORDS` against a server.
fn jobs(server: &Server, words: &[&str]) -> Ran {
    let listen = server.address.to_string();
    run_with(["jobs"].iter().chain(words), &[("NAGAYA_HTTP__LISTEN", &listen)])
}

#[track_caller]
fn fine(server: &Server, words: &[&str]) -> String {
    let ran = jobs(server, words);
    assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
    ran.stdout
}

#[track_caller]
fn listed(server: &Server) -> Vec<Value> {
    let page: Value = serde_json::from_str(&fine(server, &["deliveries", "--json"])).unwrap();
    page["deliveries"].as_array().unwrap().clone()
}

#[test]
fn a_delivery_that_failed_is_found_and_sent_again() {
    let server = Server::start(&["--set", "jobs.webhooks.allow=127.0.0.1"]);
    let (port, endpoints) = (free_port(), server.endpoints());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let webhook = json!({"url": format!("http://127.0.0.1:{port}/done")});
        let client = endpoints.client();
        client
            .enqueue(json!({"queue": "mail", "payload": 1, "webhook": webhook}))
            .await;
        client.work("mail", json!("made")).await;
    });
    wait::until("a try has failed", LIMIT, || {
        let all = listed(&server);
        all.len() == 1 && all[0]["tries"][0]["error"].is_string()
    });
    let id = listed(&server)[0]["id"].as_str().unwrap().to_owned();
    let table = fine(
        &server,
        &["deliveries", "list", "--state", "pending", "--since", "1h"],
    );
    assert!(table.lines().nth(1).unwrap().starts_with(&id), "{table}");
    assert_eq!(
        fine(&server, &["deliveries", "--queue", "other"]).lines().count(),
        1,
        "a head only"
    );

    let target = Chat::open_at(port, "/done");
    fine(&server, &["deliveries", "replay", &id]);
    wait::until("it is delivered", LIMIT, || {
        let shown = fine(&server, &["deliveries", "show", &id]);
        shown.contains("state        delivered")
    });
    let said = target.said();
    assert!(
        said.iter().all(|event| event["data"]["result"] == "made"),
        "{said:?}"
    );
    let unknown = jobs(&server, &["deliveries", "replay", "99"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.stderr);
    let nothing = jobs(&server, &["deliveries", "replay", "--failed-since", "1h"]);
    assert!(
        nothing.stderr.contains("replay: 0 deliveries"),
        "{}",
        nothing.stderr
    );
    assert_eq!(jobs(&server, &["deliveries", "replay"]).code, Some(1));
    assert_eq!(jobs(&server, &["deliveries", "show", "99"]).code, Some(1));
    server.stop();
}

#[test]
fn a_route_can_be_tried() {
    let chat = Chat::open();
    let server = Server::start(&["--set", &format!("jobs.notify.chat_url={}", chat.url)]);
    fine(&server, &["notify", "test", "chat"]);
    assert_eq!(chat.said().len(), 1);
    let unknown = jobs(&server, &["notify", "test", "mail"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("there is no route mail"),
        "{}",
        unknown.stderr
    );
    server.stop();
}
