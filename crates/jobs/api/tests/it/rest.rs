//! More of REST: batches, lists, queues, schedules.

use serde_json::json;

use super::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_registered_claimed_and_completed_item_by_item() {
    let server = TestServer::start().await;
    let client = server.client();
    let jobs: Vec<_> = (0..50).map(|n| json!({"queue": "mail", "payload": n})).collect();
    let made = client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.is(201);
    assert_eq!(made["jobs"].as_array().unwrap().len(), 50);
    let claim = json!({"worker": "w", "max": 50});
    let taken = client.post("/v1/queues/mail/claim", claim).await.is(200);
    let taken = taken["jobs"].as_array().unwrap();
    assert_eq!(taken.len(), 50);
    assert_eq!(taken[49]["payload"], 49);
    let mut reports: Vec<_> = taken.iter().map(|job| json!({"token": job["token"]})).collect();
    reports.push(json!({"token": "somebody else's"}));
    let done = client
        .post("/v1/jobs/batch/complete", json!({"jobs": reports}))
        .await
        .is(200);
    let done = done["jobs"].as_array().unwrap();
    assert!(done[..50].iter().all(|one| one["state"] == "succeeded"));
    assert_eq!(done[50]["error"]["type"], "/problems/lease-lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_item_of_a_batch_is_named_and_nothing_is_registered() {
    let server = TestServer::start().await;
    let client = server.client();
    let jobs =
        json!({"jobs": [{"queue": "mail", "payload": 1}, {"queue": "mail", "payload": 1, "priority": 5000}]});
    let refused = client.post("/v1/jobs/batch", jobs).await;
    assert_eq!(refused.problem(400), "bad-request");
    assert!(
        refused.body["detail"]
            .as_str()
            .unwrap()
            .starts_with("job 1 of the batch: priority")
    );
    assert_eq!(client.get("/v1/jobs").await.is(200)["jobs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_find_the_first_registration() {
    let server = TestServer::start().await;
    let client = server.client();
    let job = json!({"queue": "mail", "payload": 1, "idempotency_key": "order-7"});
    let first = client.post("/v1/jobs", job.clone()).await.is(201);
    let again = client.post("/v1/jobs", job).await.is(201);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["found_by"], "idempotency_key");
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_are_filtered_and_paged() {
    let server = TestServer::start().await;
    let client = server.client();
    for n in 0..25 {
        let queue = if n % 5 == 0 { "post" } else { "mail" };
        client
            .enqueue(json!({"queue": queue, "payload": n, "kind": "k"}))
            .await;
    }
    client.work("post", json!(1)).await;
    let (mut seen, mut cursor) = (0, String::new());
    loop {
        let page = client
            .get(&format!("/v1/jobs?queue=mail&limit=7{cursor}"))
            .await
            .is(200);
        seen += page["jobs"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 20);
    let done = client.get("/v1/jobs?state=succeeded,failed").await.is(200);
    assert_eq!(done["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/v1/jobs?kind=other").await.is(200)["jobs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_words_about_them() {
    let server = TestServer::start().await;
    let client = server.client();
    let new_job = |kind: &str, tag: &str| json!({"queue": "mail", "payload": 1, "kind": kind, "tags": [tag]});
    let first = client.enqueue(new_job("SendMail", "vip")).await;
    let second = client.enqueue(new_job("Sweep", "nightly")).await;
    let third = client.enqueue(new_job("SendMail", "late")).await;
    let found = async |search: &str| -> Vec<String> {
        let page = client
            .get(&format!("/v1/jobs?limit=1&search={search}"))
            .await
            .is(200);
        let mut ids: Vec<String> = Vec::new();
        let mut page = page;
        loop {
            let jobs = page["jobs"].as_array().unwrap().iter();
            ids.extend(jobs.map(|job| job["id"].as_str().unwrap().to_owned()));
            let Some(cursor) = page["next_cursor"].as_str() else {
                return ids;
            };
            let path = format!("/v1/jobs?limit=1&search={search}&cursor={cursor}");
            page = client.get(&path).await.is(200);
        }
    };
    assert_eq!(found("sendmail").await, [third.clone(), first.clone()]);
    assert_eq!(found("night").await, std::slice::from_ref(&second));
    assert_eq!(found(&second).await, [second]);
    assert!(found("nowhere").await.is_empty());
    let cancelled = client
        .post("/v1/jobs/cancel", json!({"search": "vip"}))
        .await
        .is(200);
    assert_eq!(cancelled["changed"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_tells_how_long_its_jobs_took() {
    let server = TestServer::start().await;
    let client = server.client();
    let empty = client.get("/v1/queues/mail/latency").await.is(200);
    assert_eq!(empty, json!({"jobs": 0, "wait_ms": null, "run_ms": null}));
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    client.work("mail", json!(1)).await;
    let latency = client.get("/v1/queues/mail/latency").await.is(200);
    assert_eq!(latency["jobs"], 1);
    assert!(
        latency["wait_ms"]["p50"].is_u64() && latency["run_ms"]["p99"].is_u64(),
        "{latency}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_and_tried_again_alone_and_by_filter() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let taken = client.claim("mail").await;
    let cancelled = client
        .post(&format!("/v1/jobs/{id}/cancel"), json!({"reason": "no"}))
        .await
        .is(200);
    assert_eq!(
        (&cancelled["state"], &cancelled["was"]),
        (&json!("cancelled"), &json!("running"))
    );
    let late = client
        .post(&format!("/v1/jobs/{id}/extend"), json!({"token": taken["token"]}))
        .await;
    assert_eq!(
        (late.problem(409), &late.body["reason"]),
        ("lease-lost", &json!("cancelled"))
    );
    client
        .send("POST", &format!("/v1/jobs/{id}/retry"), None, &[])
        .await
        .is(200);
    let again = client
        .send("POST", &format!("/v1/jobs/{id}/retry"), None, &[])
        .await;
    assert_eq!(again.problem(409), "wrong-state");
    for _ in 0..3 {
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    }
    let all = client
        .post("/v1/jobs/cancel", json!({"queue": "mail"}))
        .await
        .is(200);
    assert_eq!(all["changed"], 4);
    let all = client
        .post(
            "/v1/jobs/retry",
            json!({"queue": "mail", "states": ["cancelled"]}),
        )
        .await
        .is(200);
    assert_eq!(all["changed"], 4);
    assert_eq!(
        client.post("/v1/jobs/retry", json!({})).await.problem(400),
        "bad-request"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_set_up_paused_and_full() {
    let server = TestServer::start().await;
    let client = server.client();
    let settings =
        json!({"depth_max": 2, "timeout_seconds": 5, "max_retries": 1, "backoff": {"kind": "none"}});
    let queue = client.put("/v1/queues/mail", settings).await.is(200);
    assert_eq!(queue["settings"]["depth_max"], 2);
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let full = client
        .post("/v1/jobs", json!({"queue": "mail", "payload": 1}))
        .await;
    assert_eq!(full.problem(429), "queue-full");
    assert_eq!(full.headers["retry-after"], "5");
    client
        .send("POST", "/v1/queues/mail/pause", None, &[])
        .await
        .is(204);
    let none = client
        .post("/v1/queues/mail/claim", json!({"worker": "w"}))
        .await
        .is(200);
    assert_eq!(none["jobs"], json!([]));
    let read = client.get("/v1/jobs").await.is(200);
    let id = read["jobs"][0]["id"].as_str().unwrap();
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(read["explanation"]["reason"], "paused");
    client
        .send("POST", "/v1/queues/mail/resume", None, &[])
        .await
        .is(204);
    assert_eq!(client.claim("mail").await["timeout_seconds"], 5);
    let queue = client.get("/v1/queues/mail").await.is(200);
    assert_eq!(
        (&queue["depth"]["running"], &queue["depth"]["ready"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(client.get("/v1/queues/none").await.problem(404), "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_made_listed_and_removed() {
    let server = TestServer::start().await;
    let client = server.client();
    let schedule = json!({"cron": "0 4 * * *", "time_zone": "Asia/Tokyo", "missed": "skip",
        "job": {"queue": "mail", "payload": {"a": 1}}});
    let made = client.put("/v1/schedules/nightly", schedule).await.is(200);
    assert!(made["next_run_at"].as_str().unwrap().ends_with("T19:00:00Z"));
    assert_eq!(
        client.get("/v1/schedules/nightly").await.is(200)["payload"],
        json!({"a": 1})
    );
    assert_eq!(
        client.get("/v1/schedules").await.is(200)["schedules"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let bad = json!({"cron": "99 * * * *", "job": {"queue": "mail"}});
    assert_eq!(
        client.put("/v1/schedules/bad", bad).await.problem(400),
        "bad-request"
    );
    client.delete("/v1/schedules/nightly").await.is(204);
    assert_eq!(
        client.delete("/v1/schedules/nightly").await.problem(404),
        "not-found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_lines_are_shown_on_the_job() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let token = client.claim("mail").await["token"].clone();
    let progress = json!({"token": token, "progress": 0.5, "message": "half", "data": {"n": 1}});
    client
        .post(&format!("/v1/jobs/{id}/progress"), progress)
        .await
        .is(204);
    let log = json!({"token": token, "lines": ["one", "two"]});
    client.post(&format!("/v1/jobs/{id}/log"), log).await.is(204);
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(read["progress"]["progress"], 0.5);
    assert_eq!(read["progress"]["data"], json!({"n": 1}));
    let log = client.get(&format!("/v1/jobs/{id}/log?after=1")).await.is(200);
    assert_eq!(log["lines"][0]["text"], "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_workers_go_home_when_the_server_stops() {
    let server = TestServer::start().await;
    let client = server.client();
    let claim = tokio::spawn(async move {
        let claim = json!({"worker": "w", "wait_seconds": 60});
        client.post("/v1/queues/mail/claim", claim).await.is(200)
    });
    let queue = nagaya_jobs::QueueName::new("mail").unwrap();
    while server.jobs.waiting_workers(&queue) == 0 {
        tokio::task::yield_now().await;
    }
    server.jobs.release_waiting_workers();
    assert_eq!(claim.await.unwrap()["jobs"], json!([]));
}
