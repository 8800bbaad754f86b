//! What workers and submitters need beside claims and reports: leases together and given back, lost ones told at
//! once, several jobs waited for, the events of one's own job, the version.

use std::time::Duration;

use nagaya_jobs::service::Config;
use nagaya_jobs_api::proto::work_request::Message as Asked;
use nagaya_jobs_api::proto::work_response::Message as Told;
use nagaya_jobs_api::proto::work_response::answer::Outcome;
use nagaya_jobs_api::proto::{
    ClaimRequest, EventFilter, ExtendBatchRequest, ExtendRequest, GetVersionRequest, ReleaseBatchRequest,
    ReleaseRequest, State, WaitRequest, WatchRequest, WorkHello, WorkRequest, extend_batch_response,
    release_batch_response,
};
use nagaya_jobs_api::{ApiConfig, AuthConfig};
use serde_json::{Value, json};

use super::test_server::TestServer;

/// A server that hears of cancellations only by being told: it never looks by itself in time.
async fn server_without_polls() -> TestServer {
    let open = AuthConfig {
        server_token: None,
        open: true,
    };
    let config = Config {
        poll: Duration::from_secs(3_600),
        ..Config::default()
    };
    TestServer::with(open, ApiConfig::default(), config).await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_given_back_over_rest_costs_no_attempt() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client
        .enqueue(json!({"queue": "mail", "payload": 1, "max_retries": 0}))
        .await;
    let taken = client.claim("mail").await;
    let release = json!({"token": taken["token"]});
    let path = format!("/v1/jobs/{id}/release");
    let back = client.post(&path, release.clone()).await.is(200);
    assert_eq!((&back["id"], &back["state"]), (&json!(id), &json!("waiting")));
    assert_eq!(client.post(&path, release).await.problem(409), "lease-lost");
    let taken = client.claim("mail").await;
    assert_eq!(taken["attempt"], 1);
    let later = json!({"jobs": [{"token": taken["token"], "delay_seconds": 3600}, {"token": "x"}]});
    let back = client.post("/v1/jobs/batch/release", later).await.is(200);
    assert_eq!(back["jobs"][0]["state"], "scheduled");
    assert!(back["jobs"][0]["run_at"].is_string());
    assert_eq!(back["jobs"][1]["error"]["type"], "/problems/lease-lost");
    let read = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!((&read["attempts"], &read["history"]), (&json!(0), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_extended_in_one_call() {
    let server = TestServer::start().await;
    let client = server.client();
    for n in 0..2 {
        client.enqueue(json!({"queue": "mail", "payload": n})).await;
    }
    let (one, two) = (client.claim("mail").await, client.claim("mail").await);
    let forms = json!({"jobs": [
        {"token": one["token"], "timeout_seconds": 600}, {"token": "x"}, {"token": two["token"]},
    ]});
    let answer = client.post("/v1/jobs/batch/extend", forms).await.is(200);
    assert_eq!(answer["jobs"][0]["id"], one["id"]);
    assert!(text(&answer["jobs"][0]["lease_expires_at"]) > text(&one["lease_expires_at"]));
    assert_eq!(answer["jobs"][1]["error"]["reason"], "unknown");
    assert_eq!(answer["jobs"][2]["id"], two["id"]);
    let bad = json!({"jobs": [{"token": one["token"], "timeout_seconds": 0}]});
    let refused = client.post("/v1/jobs/batch/extend", bad).await;
    assert_eq!(refused.problem(400), "bad-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_hears_of_a_cancelled_job() {
    let server = server_without_polls().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let token = client.claim("mail").await["token"].clone();
    let claim = json!({"worker": "w", "wait_seconds": 30, "holding": [token]});
    let waiting = client.post("/v1/queues/mail/claim", claim.clone());
    let cancel = async {
        let mail = nagaya_jobs::QueueName::new("mail").unwrap();
        while server.jobs.waiting_workers(&mail) == 0 {
            tokio::task::yield_now().await;
        }
        client
            .post(&format!("/v1/jobs/{id}/cancel"), json!({}))
            .await
            .is(200);
    };
    let (answer, ()) = tokio::join!(waiting, cancel);
    let lost = json!([{"token": token, "id": id, "reason": "cancelled"}]);
    let answer = answer.is(200);
    assert_eq!((&answer["lost"], &answer["jobs"]), (&lost, &json!([])));
    // Said again for as long as the worker holds on to it, beside what there is to do.
    let next = client.enqueue(json!({"queue": "mail", "payload": 2})).await;
    let answer = client.post("/v1/claim", {
        let mut claim = claim;
        claim["queues"] = json!(["mail"]);
        claim
    });
    let answer = answer.await.is(200);
    assert_eq!((&answer["lost"], &answer["jobs"][0]["id"]), (&lost, &json!(next)));
    let strange = json!({"worker": "w", "wait_seconds": 30, "holding": ["no token"]});
    let answer = client.post("/v1/queues/mail/claim", strange).await.is(200);
    let unknown = json!([{"token": "no token", "reason": "unknown"}]);
    assert_eq!(answer["lost"], unknown);
    let many = json!({"worker": "w", "holding": vec!["x"; 1_025]});
    let refused = client.post("/v1/queues/mail/claim", many).await;
    assert_eq!(refused.problem(400), "bad-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_reports_itself_does_not_end_its_wait() {
    let server = server_without_polls().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let token = client.claim("mail").await["token"].clone();
    let claim = json!({"worker": "w", "wait_seconds": 30, "holding": [token]});
    let waiting = client.post("/v1/queues/mail/claim", claim);
    let next = async {
        let mail = nagaya_jobs::QueueName::new("mail").unwrap();
        while server.jobs.waiting_workers(&mail) == 0 {
            tokio::task::yield_now().await;
        }
        let done = json!({"token": token});
        client
            .post(&format!("/v1/jobs/{id}/complete"), done)
            .await
            .is(200);
        client.enqueue(json!({"queue": "mail", "payload": 2})).await
    };
    let (answer, next) = tokio::join!(waiting, next);
    let answer = answer.is(200);
    assert_eq!(
        (&answer["jobs"][0]["id"], &answer["lost"]),
        (&json!(next), &Value::Null)
    );
}

async fn heard(stream: &mut tonic::Streaming<nagaya_jobs_api::proto::WorkResponse>) -> Told {
    stream.message().await.unwrap().unwrap().message.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_stream_tells_of_a_cancelled_job_and_takes_one_back() {
    let server = server_without_polls().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let (asks, asked) = tokio::sync::mpsc::channel(10);
    let say = async |tag, message| {
        let message = Some(message);
        asks.send(WorkRequest { tag, message }).await.unwrap();
    };
    let hello = WorkHello {
        worker: "w".into(),
        queues: vec!["mail".into()],
        credits: 2,
        ..WorkHello::default()
    };
    say(0, Asked::Hello(hello)).await;
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut stream = server.grpc().await.work(asked).await.unwrap().into_inner();
    let Told::Job(job) = heard(&mut stream).await else {
        panic!("a job comes first");
    };
    client
        .post(&format!("/v1/jobs/{id}/cancel"), json!({}))
        .await
        .is(200);
    let Told::Lost(lost) = heard(&mut stream).await else {
        panic!("the loss is told");
    };
    assert_eq!((lost.id, &lost.token), (job.id, &job.token));
    assert_eq!(lost.reason, "cancelled");
    client.enqueue(json!({"queue": "mail", "payload": 2})).await;
    let Told::Job(second) = heard(&mut stream).await else {
        panic!("the next job");
    };
    let release = ReleaseRequest {
        token: second.token,
        delay_ms: 60_000,
    };
    say(7, Asked::Release(release)).await;
    let Told::Answer(answer) = heard(&mut stream).await else {
        panic!("an answer");
    };
    let Some(Outcome::Released(released)) = answer.outcome else {
        panic!("{answer:?}");
    };
    assert_eq!((answer.tag, released.state()), (7, State::Scheduled));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_jobs_are_waited_for_in_one_call() {
    let server = TestServer::start().await;
    let client = server.client();
    let mut ids = Vec::new();
    for n in 0..2 {
        ids.push(client.enqueue(json!({"queue": "mail", "payload": n})).await);
    }
    let at_once = client.post("/v1/jobs/wait", json!({"ids": ids})).await.is(200);
    assert_eq!(
        at_once,
        json!({"done": false, "jobs": [{"id": ids[0], "state": "waiting"}, {"id": ids[1], "state": "waiting"}]})
    );
    let any = json!({"ids": ids, "until": "any", "wait_seconds": 30, "results": true});
    let (answer, first) = tokio::join!(
        client.post("/v1/jobs/wait", any),
        client.work("mail", json!({"n": 1}))
    );
    let answer = answer.is(200);
    assert_eq!((&answer["done"], first), (&json!(true), ids[0].clone()));
    assert_eq!(answer["jobs"][0]["result"], json!({"n": 1}));
    assert_eq!(answer["jobs"][1], json!({"id": ids[1], "state": "waiting"}));
    let mut grpc = server.grpc().await;
    let all = WaitRequest {
        ids: ids.iter().map(|id| id.parse().unwrap()).collect(),
        wait_ms: 30_000,
        results: true,
        ..WaitRequest::default()
    };
    let (answer, _) = tokio::join!(grpc.wait(all), client.work("mail", json!({"n": 2})));
    let answer = answer.unwrap().into_inner();
    assert!(answer.done && answer.jobs.iter().all(|job| job.state() == State::Succeeded));
    assert_eq!(&answer.jobs[1].result.as_ref().unwrap().data[..], b"{\"n\":2}");
    // One that is not there does not keep anybody waiting.
    let gone = json!({"ids": ["99"], "wait_seconds": 30});
    let answer = client.post("/v1/jobs/wait", gone).await.is(200);
    assert_eq!(answer, json!({"done": true, "jobs": [{"id": "99"}]}));
    for bad in [json!({"ids": []}), json!({"ids": vec!["1"; 257]})] {
        let refused = client.post("/v1/jobs/wait", bad).await;
        assert_eq!(refused.problem(400), "bad-request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_leases_go_over_grpc_too() {
    let server = TestServer::start().await;
    let client = server.client();
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let mut grpc = server.grpc().await;
    let claim = ClaimRequest {
        worker: "w".into(),
        queues: vec!["mail".into()],
        holding: vec!["no token".into()],
        ..ClaimRequest::default()
    };
    let claimed = grpc.claim(claim).await.unwrap().into_inner();
    assert_eq!(
        (claimed.lost[0].id, claimed.lost[0].reason.as_str()),
        (0, "unknown")
    );
    let token = claimed.jobs[0].token.clone();
    let extend = |token: &str| ExtendRequest {
        token: token.into(),
        timeout_ms: Some(90_000),
    };
    let leases = vec![extend(&token), extend("x")];
    let extended = grpc.extend_batch(ExtendBatchRequest { leases }).await.unwrap();
    let [first, second] = &extended.into_inner().leases[..] else {
        panic!("one answer each");
    };
    use extend_batch_response::item::Outcome as Extended;
    assert!(matches!(first.outcome, Some(Extended::Done(_))));
    assert!(matches!(&second.outcome, Some(Extended::Problem(problem)) if problem.name == "lease-lost"));
    let release = |token: &str| ReleaseRequest {
        token: token.into(),
        delay_ms: 0,
    };
    let leases = vec![release("x"), release(&token)];
    let released = grpc.release_batch(ReleaseBatchRequest { leases }).await.unwrap();
    let outcome = &released.into_inner().leases[1].outcome;
    use release_batch_response::item::Outcome as Released;
    assert!(matches!(outcome, Some(Released::Done(done)) if done.state() == State::Waiting));
    let again = grpc.release(release(&token)).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::FailedPrecondition);
    let version = grpc.get_version(GetVersionRequest {}).await.unwrap().into_inner();
    assert_eq!(version.version, env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_follows_its_own_job_with_its_lease() {
    let auth = AuthConfig {
        server_token: Some("the server's".into()),
        open: false,
    };
    let server = TestServer::with(auth, ApiConfig::default(), Config::default()).await;
    let admin = server.client().with_token("the server's");
    let form = json!({"tenant": "shop", "name": "w", "scopes": ["work"]});
    let made = admin.post("/v1/tokens", form).await.is(201);
    let token = text(&made["token"]);
    let worker = server.client().with_token(&token);
    let job = json!({"tenant": "shop", "queue": "mail", "payload": 1});
    let (own, other) = (admin.enqueue(job.clone()).await, admin.enqueue(job).await);
    let taken = worker.claim("mail").await;
    assert_eq!(taken["id"], json!(own));
    let lease = text(&taken["token"]);
    let path = |id: &str| format!("/v1/jobs/{id}/events");
    let with = [("nagaya-lease", lease.as_str())];
    assert_eq!(worker.status("GET", &path(&own), None, &[]).await.0, 403);
    assert_eq!(worker.status("GET", &path(&own), None, &with).await.0, 200);
    assert_eq!(worker.status("GET", &path(&other), None, &with).await.0, 409);
    let made_up = [("nagaya-lease", "x")];
    assert_eq!(worker.status("GET", &path(&own), None, &made_up).await.0, 409);

    let watch = |job: &str, lease: &str| {
        let filter = Some(EventFilter {
            job: job.parse().ok(),
            ..EventFilter::default()
        });
        let mut request = tonic::Request::new(WatchRequest {
            filter,
            after: Some(0),
            lease: lease.into(),
        });
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    };
    let mut grpc = server.grpc().await;
    let mut stream = grpc.watch(watch(&own, &lease)).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let refused = grpc.watch(watch(&other, &lease)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let refused = grpc.watch(watch(&own, "")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    let version = worker.get("/v1/version").await.is(200);
    assert_eq!(version, json!({"version": env!("CARGO_PKG_VERSION")}));
}
