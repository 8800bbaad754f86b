//! Document 002's sequences through a real load balancer: one server on SQLite, two on PostgreSQL.

use super::jobs_site::sequences::{self, for_each_sequence};
use super::jobs_site::{Chat, Server, Site};
use super::*;
use nagaya_testkit::wait;
use serde_json::json;
use tokio::runtime::Runtime;

macro_rules! on_every_site {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            use super::*;

            $(#[test]
            fn $name() {
                let site = Site::on_sqlite(&[]);
                Runtime::new().unwrap().block_on(sequences::$name(&site.endpoints));
            })*
        }

        mod postgres {
            use super::*;

            $(#[test]
            fn $name() {
                let site = Site::on_postgres(&[]);
                Runtime::new().unwrap().block_on(sequences::$name(&site.endpoints));
                let answered: Vec<u64> = site.servers.iter().map(Server::answered).collect();
                assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
            })*
        }
    };
}

for_each_sequence!(on_every_site);

/// The last step of the second sequence: who fails for good is told to the administrator, once for all servers.
fn an_administrator_is_told_of_a_job_that_failed_for_good(start: impl Fn(&[&str]) -> Site) {
    let chat = Chat::open();
    let url = format!("jobs.notify.chat_url={}", chat.url);
    let site = start(&["--set", &url, "--set", "jobs.notify.gather=0s"]);
    Runtime::new().unwrap().block_on(async {
        let client = site.endpoints.client();
        let job = json!({"queue": "video", "payload": null, "backoff": {"kind": "none"}});
        let id = client.enqueue(job).await;
        for _ in 1..=6 {
            let taken = client.claim("video").await;
            let report = json!({"token": taken["token"], "error": "no such codec"});
            client.post(&format!("/v1/jobs/{id}/fail"), report).await.is(200);
        }
    });
    wait::until("the administrator is told", LIMIT, || !chat.said().is_empty());
    let said = chat.said();
    let text = said[0]["text"].as_str().unwrap();
    assert!(text.contains("video") && text.contains("no such codec"), "{text}");
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn an_administrator_is_told_of_a_job_that_failed_for_good_on_sqlite() {
    an_administrator_is_told_of_a_job_that_failed_for_good(Site::on_sqlite);
}

#[test]
fn an_administrator_is_told_of_a_job_that_failed_for_good_on_postgresql() {
    an_administrator_is_told_of_a_job_that_failed_for_good(Site::on_postgres);
}
