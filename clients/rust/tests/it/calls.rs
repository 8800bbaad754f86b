//! Single calls, and which of them are repeated.

use std::time::Duration;

use nagaya_client::{Client, Error, NewJob, RetryPolicy, State};

use crate::fake::{Fake, Fault};

fn job() -> NewJob {
    NewJob::new("q", &1).unwrap()
}

#[tokio::test]
async fn an_enqueue_whose_answer_was_lost_is_repeated_and_registers_once() {
    let fake = Fake::start().await;
    fake.fail("enqueue", Fault::AnswerLost);
    let enqueued = fake.client().enqueue(job()).await.unwrap();
    assert_eq!(
        (enqueued.id.as_str(), enqueued.state),
        ("1", Some(State::Waiting))
    );
    assert_eq!(fake.server().calls["enqueue"], 2);
    assert_eq!(fake.server().jobs.len(), 1);
}

#[tokio::test]
async fn without_keys_only_what_was_not_done_is_repeated() {
    let fake = Fake::start().await;
    let client = Client::builder(&fake.url).without_enqueue_keys().build().unwrap();
    fake.fail("enqueue", Fault::AnswerLost);
    assert!(matches!(client.enqueue(job()).await, Err(Error::Refused(_))));
    assert_eq!(fake.server().calls["enqueue"], 1);
    fake.fail("enqueue", Fault::Refused(429));
    client.enqueue(job()).await.unwrap();
    assert_eq!(fake.server().jobs.len(), 2);
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_registers_each_job_once_in_order() {
    let fake = Fake::start().await;
    fake.fail("batch", Fault::AnswerLost);
    let enqueued = fake
        .client()
        .enqueue_many(vec![job(), job(), job()])
        .await
        .unwrap();
    let ids: Vec<&str> = enqueued
        .iter()
        .map(|one| one.as_ref().unwrap().id.as_str())
        .collect();
    assert_eq!(ids, ["1", "2", "3"]);
    assert_eq!(fake.server().jobs.len(), 3);
}

#[tokio::test]
async fn what_the_caller_got_wrong_is_told_at_once() {
    let fake = Fake::start().await;
    fake.fail("enqueue", Fault::Refused(422));
    let error = fake.client().enqueue(job()).await.unwrap_err();
    assert_eq!(error.to_string(), "as told (status 422)");
    assert_eq!(fake.server().calls["enqueue"], 1);
    assert!(
        fake.client()
            .job("77")
            .await
            .unwrap_err()
            .problem()
            .is_some_and(|problem| problem.status == 404)
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let client = Client::builder("http://127.0.0.1:1")
        .retry(RetryPolicy::NONE)
        .build()
        .unwrap();
    let error = client.enqueue(job()).await.unwrap_err();
    assert_eq!(error.to_string(), "nothing answers at http://127.0.0.1:1");
    assert!(error.was_not_done() && error.is_temporary());
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_with_the_patience() {
    let fake = Fake::start().await;
    let client = fake.client();
    let id = client.enqueue(job()).await.unwrap().id;
    let early = client.wait(&id, Duration::from_millis(10)).await.unwrap();
    assert_eq!(early.state, State::Waiting);
    let claimed = client.claim("q", &claim()).await.unwrap().remove(0);
    let (done, waited) = tokio::join!(
        client.complete(&id, &claimed.token, None),
        client.wait(&id, Duration::from_secs(20))
    );
    done.unwrap();
    assert_eq!(waited.unwrap().state, State::Succeeded);
}

#[tokio::test]
async fn a_stale_token_is_an_error_of_its_own() {
    let fake = Fake::start().await;
    let client = fake.client();
    let id = client.enqueue(job()).await.unwrap().id;
    let error = client.complete(&id, "foreign", None).await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost(_)), "{error}");
}

fn claim() -> nagaya_client::Claim {
    nagaya_client::Claim {
        worker: "w".to_owned(),
        max: 1,
        wait: Duration::from_secs(1),
        holding: Vec::new(),
    }
}
