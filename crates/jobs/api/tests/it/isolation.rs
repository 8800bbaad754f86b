//! What a tenant, a token of one queue and a reader must not see or do.

use nagaya_jobs::service::Config;
use nagaya_jobs_api::{ApiConfig, AuthConfig};
use serde_json::{Value, json};

use super::client::{Client, EventStream};
use super::test_server::TestServer;

async fn closed_server() -> TestServer {
    let auth = AuthConfig {
        server_token: Some("the house's".into()),
        open: false,
    };
    TestServer::with(auth, ApiConfig::default(), Config::default()).await
}

async fn token(server: &TestServer, tenant: &str, scopes: &[&str], queues: &[&str]) -> Client {
    let admin = server.client().with_token("the house's");
    let name = format!("{tenant}-{}-{}", scopes.join("-"), queues.join("-"));
    let form = json!({"tenant": tenant, "name": name, "scopes": scopes, "queues": queues});
    let made = admin.post("/v1/tokens", form).await.is(201);
    server.client().with_token(made["token"].as_str().unwrap())
}

const ALL: [&str; 3] = ["enqueue", "work", "read"];

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_tenant_cannot_be_depended_on() {
    let server = closed_server().await;
    let (shop, bank) = (
        token(&server, "shop", &ALL, &[]).await,
        token(&server, "bank", &ALL, &[]).await,
    );
    let id = shop.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let of_other = bank
        .post("/v1/jobs", json!({"queue": "mail", "depends_on": [id]}))
        .await;
    let of_none = bank
        .post("/v1/jobs", json!({"queue": "mail", "depends_on": ["17"]}))
        .await;
    assert_eq!(of_other.problem(422), "dependency-unusable");
    let hide = |text: &Value, id: &str| text["detail"].as_str().unwrap().replace(id, "N");
    assert_eq!(
        hide(&of_other.body, &id),
        hide(&of_none.body, "17"),
        "as if it did not exist"
    );
    // The same for a token of one queue and a job of another.
    let bound = token(&server, "shop", &ALL, &["post"]).await;
    let refused = bound
        .post("/v1/jobs", json!({"queue": "post", "depends_on": [id]}))
        .await;
    assert_eq!(refused.problem(422), "dependency-unusable");
    let batch = json!({"jobs": [{"queue": "post", "depends_on": [id]}]});
    assert_eq!(
        bound.post("/v1/jobs/batch", batch).await.problem(422),
        "dependency-unusable"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_show_the_tenants_own_jobs_and_no_secrets() {
    let server = closed_server().await;
    let admin = server.client().with_token("the house's");
    let (shop, bank) = (
        token(&server, "shop", &ALL, &[]).await,
        token(&server, "bank", &ALL, &[]).await,
    );
    let settings = json!({"push": {"url": "http://127.0.0.1:9/push-secret", "concurrency": 1},
                          "webhook": {"url": "http://127.0.0.1:9/hook-secret"}});
    admin.put("/v1/queues/mail", settings).await.is(200);
    shop.enqueue(json!({"queue": "mail", "payload": 1})).await;
    bank.enqueue(json!({"queue": "mail", "payload": 1})).await;
    bank.enqueue(json!({"queue": "mail", "payload": 1})).await;
    bank.enqueue(json!({"queue": "vault", "payload": 1})).await;
    let listed = shop.get("/v1/queues").await.is(200);
    assert_eq!(listed["queues"].as_array().unwrap().len(), 1);
    assert_eq!(listed["queues"][0]["depth"]["ready"], 1);
    assert_eq!(listed["queues"][0]["passed"]["enqueued"], 1);
    assert_eq!(shop.get("/v1/queues/vault").await.problem(404), "not-found");
    for queue in [&listed["queues"][0], &shop.get("/v1/queues/mail").await.is(200)] {
        assert!(!queue.to_string().contains("secret"), "{queue}");
    }
    let whole = admin.get("/v1/queues/mail").await.is(200);
    assert_eq!(whole["depth"]["ready"], 3);
    assert!(whole.to_string().contains("push-secret") && whole.to_string().contains("hook-secret"));
}

/// Returns the jobs that a stream tells of, up to the one that ends the test.
async fn jobs_until(events: &mut EventStream, last: &str) -> Vec<String> {
    let mut jobs = Vec::new();
    loop {
        let event = events.next().await.expect("the stream goes on");
        let job = event.data["job"].as_str().unwrap().to_owned();
        jobs.push(job.clone());
        if job == last {
            return jobs;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_queue_gets_events_of_that_queue_only() {
    let server = closed_server().await;
    let shop = token(&server, "shop", &ALL, &[]).await;
    let bound = token(&server, "shop", &ALL, &["mail"]).await;
    shop.put("/v1/subscriptions/all", json!({})).await.is(200);
    shop.put("/v1/subscriptions/post", json!({"queue": "post"}))
        .await
        .is(200);
    shop.put("/v1/subscriptions/mail", json!({"queue": "mail"}))
        .await
        .is(200);
    let other = shop.enqueue(json!({"queue": "post", "payload": 1})).await;
    for name in ["all", "post"] {
        let path = format!("/v1/events?subscription={name}");
        assert_eq!(bound.get(&path).await.problem(404), "not-found");
        let ack = bound
            .post(&format!("/v1/subscriptions/{name}/ack"), json!({"cursor": "1"}))
            .await;
        assert_eq!(ack.problem(404), "not-found");
        let path = format!("/v1/subscriptions/{name}");
        assert_eq!(bound.delete(&path).await.problem(404), "not-found");
        assert_eq!(
            bound.put(&path, json!({"queue": "mail"})).await.problem(403),
            "forbidden"
        );
    }
    let listed = bound.get("/v1/subscriptions").await.is(200);
    assert_eq!(listed["subscriptions"].as_array().unwrap().len(), 1);
    assert_eq!(bound.get("/v1/events").await.problem(403), "forbidden");
    assert_eq!(
        bound.get(&format!("/v1/jobs/{other}/events")).await.problem(404),
        "not-found"
    );
    let mut own = bound.events("/v1/events?subscription=mail", None).await;
    let mut by_queue = bound.events("/v1/events?queue=mail&after=0", None).await;
    let first = shop.enqueue(json!({"queue": "mail", "payload": 1})).await;
    shop.enqueue(json!({"queue": "post", "payload": 1})).await;
    let last = shop.enqueue(json!({"queue": "mail", "payload": 1})).await;
    for events in [&mut own, &mut by_queue] {
        assert_eq!(jobs_until(events, &last).await, [first.clone(), last.clone()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_of_all_tenants_is_for_administrators() {
    let server = closed_server().await;
    let admin = server.client().with_token("the house's");
    admin.put("/v1/subscriptions/everything", json!({})).await.is(200);
    // It belongs to the default tenant, whose tokens see only that tenant.
    let own = token(&server, "default", &ALL, &[]).await;
    let path = "/v1/events?subscription=everything";
    assert_eq!(own.get(path).await.problem(404), "not-found");
    let gone = own.delete("/v1/subscriptions/everything").await;
    assert_eq!(gone.problem(404), "not-found");
    assert_eq!(
        own.get("/v1/subscriptions").await.is(200)["subscriptions"],
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_subscriptions_and_changes_none() {
    let server = closed_server().await;
    let owner = token(&server, "shop", &ALL, &[]).await;
    let reader = token(&server, "shop", &["read"], &[]).await;
    owner.put("/v1/subscriptions/own", json!({})).await.is(200);
    let put = reader.put("/v1/subscriptions/new", json!({})).await;
    assert_eq!(put.problem(403), "forbidden");
    let changed = reader
        .put("/v1/subscriptions/own", json!({"kinds": ["failed"]}))
        .await;
    assert_eq!(changed.problem(403), "forbidden");
    assert_eq!(
        reader.delete("/v1/subscriptions/own").await.problem(403),
        "forbidden"
    );
    let ack = reader
        .post("/v1/subscriptions/own/ack", json!({"cursor": "0"}))
        .await;
    assert_eq!(ack.problem(403), "forbidden");
    let id = owner.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let mut events = reader.events("/v1/events?subscription=own", None).await;
    assert_eq!(jobs_until(&mut events, &id).await, [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_queue_leaves_other_queues_schedules_alone() {
    let server = closed_server().await;
    let owner = token(&server, "shop", &ALL, &[]).await;
    let bound = token(&server, "shop", &ALL, &["mail"]).await;
    let schedule = |queue: &str| json!({"cron": "@daily", "job": {"queue": queue}});
    owner.put("/v1/schedules/nightly", schedule("post")).await.is(200);
    assert_eq!(
        bound.delete("/v1/schedules/nightly").await.problem(404),
        "not-found"
    );
    let replaced = bound.put("/v1/schedules/nightly", schedule("mail")).await;
    assert_eq!(replaced.problem(403), "forbidden");
    assert_eq!(owner.get("/v1/schedules/nightly").await.is(200)["queue"], "post");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_of_one_queue_stays_in_it() {
    let server = closed_server().await;
    let bound = token(&server, "shop", &["admin"], &["mail"]).await;
    bound.put("/v1/queues/mail", json!({})).await.is(200);
    assert_eq!(
        bound.put("/v1/queues/post", json!({})).await.problem(403),
        "forbidden"
    );
    let pause = bound.send("POST", "/v1/queues/post/pause", None, &[]).await;
    assert_eq!(pause.problem(403), "forbidden");
    let form = json!({"tenant": "shop", "name": "wider", "scopes": ["admin"]});
    assert_eq!(bound.post("/v1/tokens", form).await.problem(403), "forbidden");
}
