//! What operators do with jobs: move, change and remove them, one by one and by a filter, after a look at how many.

use serde_json::json;

use super::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_counted_before_they_are_moved() {
    let server = TestServer::start().await;
    let client = server.client();
    for n in 0..5 {
        let kind = if n < 3 { "slow" } else { "fast" };
        client
            .enqueue(json!({"queue": "mail", "kind": kind, "payload": n}))
            .await;
    }
    let form = |dry_run| json!({"queue": "mail", "kind": "slow", "limit": 2, "dry_run": dry_run, "set": {"queue": "slow-mail"}});
    let counted = client.post("/v1/jobs/edit", form(true)).await.is(200);
    assert_eq!(counted, json!({"changed": 0, "matched": 3, "refused": 0}));
    let read = client.get("/v1/queues/mail").await.is(200);
    assert_eq!(read["depth"]["ready"], 5, "a look changes nothing");
    let mut moved = 0;
    let mut form = form(false);
    loop {
        let answer = client.post("/v1/jobs/edit", form.clone()).await.is(200);
        moved += answer["changed"].as_u64().unwrap();
        match &answer["next_cursor"] {
            cursor if cursor.is_string() => form["cursor"] = cursor.clone(),
            _ => break,
        }
    }
    assert_eq!(moved, 3);
    assert_eq!(client.claim("slow-mail").await["kind"], "slow");
    let left = client.get("/v1/queues/mail").await.is(200);
    assert_eq!(left["depth"]["ready"], 2);
    for bad in [
        json!({"queue": "mail"}),
        json!({"queue": "mail", "set": {}}),
        json!({"set": {"priority": 1}}),
        json!({"queue": "mail", "set": {"priority": 2000}}),
        json!({"queue": "mail", "dry_run": true, "set": {"priority": 2000}}),
        json!({"queue": "mail", "set": {"queue": "not a name"}}),
    ] {
        let refused = client.post("/v1/jobs/edit", bad.clone()).await;
        assert_eq!(refused.problem(400), "bad-request", "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_jobs_are_removed_by_a_filter() {
    let server = TestServer::start().await;
    let client = server.client();
    for n in 0..3 {
        client.enqueue(json!({"queue": "mail", "payload": n})).await;
    }
    client.work("mail", json!(1)).await;
    client.work("mail", json!(2)).await;
    let form = json!({"queue": "mail"});
    let dry = json!({"queue": "mail", "dry_run": true});
    let counted = client.post("/v1/jobs/delete", dry).await.is(200);
    assert_eq!(counted["matched"], 2);
    let removed = client.post("/v1/jobs/delete", form).await.is(200);
    assert_eq!(
        (&removed["changed"], &removed["matched"]),
        (&json!(2), &json!(null))
    );
    let left = client.get("/v1/jobs?queue=mail").await.is(200);
    assert_eq!(left["jobs"].as_array().unwrap().len(), 1);
    // What is for a change alone is not taken elsewhere.
    let odd = json!({"queue": "mail", "set": {"priority": 1}});
    assert_eq!(
        client.post("/v1/jobs/delete", odd).await.problem(400),
        "bad-request"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_is_moved_and_run_now() {
    let server = TestServer::start().await;
    let client = server.client();
    let job = json!({"queue": "mail", "payload": 1, "run_at": "2100-01-01T00:00:00Z"});
    let id = client.enqueue(job).await;
    let change = json!({"queue": "other", "run_at": "2000-01-01T00:00:00Z"}).to_string();
    let path = format!("/v1/jobs/{id}");
    client.send("PATCH", &path, Some(change), &[]).await.is(204);
    assert_eq!(client.claim("other").await["id"], json!(id));
    let late = json!({"queue": "mail"}).to_string();
    let refused = client.send("PATCH", &path, Some(late), &[]).await;
    assert_eq!(refused.problem(409), "wrong-state");
}
