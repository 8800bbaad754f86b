//! Document 002's sequences: register, claim, report, read; over REST and over gRPC.
//!
//! This file only has their bodies: `every_store` runs them in this process, the tests of the binary behind a
//! proxy.

use std::time::Duration;

use nagaya_jobs_api::proto::{
    Body, ClaimRequest, CompleteRequest, EnqueueRequest, FailRequest, GetRequest, State,
};
use serde_json::json;

use super::client::Endpoints;

/// Passes the names of all sequences to a macro.
macro_rules! for_each_sequence {
    ($make:ident) => {
        $make! {
            a_job_is_registered_taken_done_and_read_through_rest,
            a_job_that_always_fails_is_tried_six_times_through_rest,
            a_running_job_whose_time_is_over_waits_again_and_its_late_report_changes_nothing,
            a_submitter_waits_for_the_end_through_rest,
            a_job_is_registered_taken_done_and_read_through_grpc,
            failures_and_lost_leases_are_told_apart_through_grpc,
        }
    };
}
pub(crate) use for_each_sequence;

pub(crate) async fn a_job_is_registered_taken_done_and_read_through_rest(endpoints: &Endpoints) {
    let client = endpoints.client();
    let job = json!({"queue": "video", "payload": {"file": "a.mp4"}, "timeout_seconds": 30});
    let registered = client.post("/v1/jobs", job).await.is(201);
    assert_eq!(registered["state"], "waiting");
    let id = registered["id"].as_str().unwrap();
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        (&read["state"], &read["attempts"]),
        (&json!("waiting"), &json!(0))
    );
    assert_eq!(read["explanation"]["reason"], "no_worker");

    let taken = client.claim("video").await;
    assert_eq!((&taken["id"], &taken["attempt"]), (&json!(id), &json!(1)));
    assert_eq!(taken["payload"], json!({"file": "a.mp4"}));
    assert_eq!(taken["timeout_seconds"], 30);
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(read["state"], "running");
    assert_eq!(read["lease"]["worker"], "w");

    let report = json!({"token": taken["token"], "result": {"frames": 12}});
    let path = format!("/v1/jobs/{id}/complete");
    let done = client.post(&path, report.clone()).await.is(200);
    assert_eq!(
        (&done["state"], &done["repeated"]),
        (&json!("succeeded"), &json!(false))
    );
    let again = client.post(&path, report).await.is(200);
    assert_eq!(again["repeated"], true);
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        (&read["state"], &read["result"]),
        (&json!("succeeded"), &json!({"frames": 12}))
    );
    assert_eq!(read["history"][0]["end"], "succeeded");
}

pub(crate) async fn a_job_that_always_fails_is_tried_six_times_through_rest(endpoints: &Endpoints) {
    let client = endpoints.client();
    let id = client
        .enqueue(json!({"queue": "video", "payload": null, "backoff": {"kind": "none"}}))
        .await;
    for attempt in 1..=6 {
        let taken = client.claim("video").await;
        assert_eq!(taken["attempt"], attempt);
        let report = json!({"token": taken["token"], "error": format!("broken {attempt}")});
        let failed = client.post(&format!("/v1/jobs/{id}/fail"), report).await.is(200);
        let expected = if attempt < 6 { "waiting" } else { "failed" };
        assert_eq!(failed["state"], expected);
    }
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        (&read["state"], &read["error"]),
        (&json!("failed"), &json!("broken 6"))
    );
    assert_eq!(read["history"].as_array().unwrap().len(), 6);
}

pub(crate) async fn a_running_job_whose_time_is_over_waits_again_and_its_late_report_changes_nothing(
    endpoints: &Endpoints,
) {
    let client = endpoints.client();
    let id = client
        .enqueue(json!({"queue": "video", "payload": 1, "timeout_seconds": 1}))
        .await;
    let first = client.claim("video").await;
    let second = client.claim("video").await;
    assert_eq!((&second["id"], &second["attempt"]), (&json!(id), &json!(2)));
    let late = client
        .post(
            &format!("/v1/jobs/{id}/complete"),
            json!({"token": first["token"]}),
        )
        .await;
    assert_eq!(late.problem(409), "lease-lost");
    assert_eq!(late.body["reason"], "expired");
    let extension = json!({"token": second["token"], "timeout_seconds": 60});
    client
        .post(&format!("/v1/jobs/{id}/extend"), extension)
        .await
        .is(200);
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        (&read["state"], &read["late_reports_count"]),
        (&json!("running"), &json!(1))
    );
    assert_eq!(read["late_reports"][0]["what"], "complete");
}

pub(crate) async fn a_submitter_waits_for_the_end_through_rest(endpoints: &Endpoints) {
    let client = endpoints.client();
    let id = client.enqueue(json!({"queue": "video", "payload": 1})).await;
    let path = format!("/v1/jobs/{id}?wait=30s");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get(&path).await.is(200) }
    });
    client.work("video", json!("made")).await;
    let read = tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&read["state"], &read["result"]),
        (&json!("succeeded"), &json!("made"))
    );
}

pub(crate) async fn a_job_is_registered_taken_done_and_read_through_grpc(endpoints: &Endpoints) {
    let mut client = endpoints.grpc().await;
    let payload = Body {
        data: vec![0, 159, 255].into(),
        content_type: "video/mp4".into(),
    };
    let request = EnqueueRequest {
        queue: "video".into(),
        payload: Some(payload.clone()),
        timeout_ms: Some(30_000),
        ..EnqueueRequest::default()
    };
    let registered = client.enqueue(request).await.unwrap().into_inner();
    assert_eq!(registered.state(), State::Waiting);
    let claim = ClaimRequest {
        worker: "w".into(),
        queues: vec!["video".into()],
        wait_ms: 10_000,
        ..ClaimRequest::default()
    };
    let taken = client.claim(claim).await.unwrap().into_inner().jobs.remove(0);
    assert_eq!(
        (taken.id, taken.attempt, taken.payload),
        (registered.id, 1, Some(payload))
    );
    let report = CompleteRequest {
        token: taken.token,
        result: Some(Body {
            data: "{\"frames\":12}".into(),
            content_type: String::new(),
        }),
    };
    assert!(!client.complete(report.clone()).await.unwrap().into_inner().repeat);
    assert!(client.complete(report).await.unwrap().into_inner().repeat);
    let get = GetRequest {
        id: registered.id,
        wait_ms: 0,
    };
    let job = client.get(get).await.unwrap().into_inner();
    assert_eq!(job.state(), State::Succeeded);
    assert_eq!(&job.result.unwrap().data[..], b"{\"frames\":12}");
    // REST shows the same job.
    let read = endpoints
        .client()
        .get(&format!("/v1/jobs/{}", registered.id))
        .await
        .is(200);
    assert_eq!(read["payload_base64"], "AJ//");
    assert_eq!(read["payload_content_type"], "video/mp4");
}

pub(crate) async fn failures_and_lost_leases_are_told_apart_through_grpc(endpoints: &Endpoints) {
    let mut client = endpoints.grpc().await;
    let request = EnqueueRequest {
        queue: "video".into(),
        max_retries: Some(1),
        ..EnqueueRequest::default()
    };
    let id = client.enqueue(request).await.unwrap().into_inner().id;
    let claim = ClaimRequest {
        worker: "w".into(),
        queues: vec!["video".into()],
        wait_ms: 10_000,
        ..ClaimRequest::default()
    };
    let first = client
        .claim(claim.clone())
        .await
        .unwrap()
        .into_inner()
        .jobs
        .remove(0);
    let fail = |token: &str, error: &str| FailRequest {
        token: token.into(),
        error: error.into(),
        permanent: false,
        retry_after_ms: Some(0),
    };
    let failed = client.fail(fail(&first.token, "one")).await.unwrap().into_inner();
    assert_eq!(failed.state(), State::Waiting);
    let late = client.fail(fail(&first.token, "other")).await.unwrap_err();
    assert_eq!(late.code(), tonic::Code::FailedPrecondition);
    assert_eq!(late.metadata().get("nagaya-problem").unwrap(), "lease-lost");
    let second = client.claim(claim).await.unwrap().into_inner().jobs.remove(0);
    let failed = client
        .fail(fail(&second.token, "two"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(failed.state(), State::Failed);
    let get = GetRequest { id, wait_ms: 1_000 };
    let job = client.get(get).await.unwrap().into_inner();
    assert_eq!(
        (job.state(), job.error.as_str(), job.history.len()),
        (State::Failed, "two", 2)
    );
}
