//! Tokens, scopes and tenants.

use nagaya_jobs::service::Config;
use nagaya_jobs_api::proto::EnqueueRequest;
use nagaya_jobs_api::{ApiConfig, AuthConfig};
use serde_json::json;
use tonic::Request;

use super::client::Client;
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
    let name = format!("{tenant}-{}", scopes.join("-"));
    let request = json!({"tenant": tenant, "name": name, "scopes": scopes, "queues": queues});
    let made = admin.post("/v1/tokens", request).await.is(201);
    server.client().with_token(made["token"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_known_token_nothing_is_done() {
    let server = closed_server().await;
    let nobody = server.client();
    let answer = nobody.get("/v1/jobs").await;
    assert_eq!(answer.problem(401), "unauthorized");
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    let stranger = server.client().with_token("guess");
    assert_eq!(stranger.get("/v1/jobs").await.problem(401), "unauthorized");
    server
        .client()
        .with_token("the house's")
        .get("/v1/jobs")
        .await
        .is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_can_ask_whose_it_is() {
    let server = closed_server().await;
    let reader = token(&server, "shop", &["read"], &["mail"]).await;
    let who = reader.get("/v1/whoami").await.is(200);
    assert_eq!(
        who,
        json!({"tenant": "shop", "scopes": ["read"], "queues": ["mail"], "is_house": false})
    );
    let own = server.client().with_token("the house's");
    assert_eq!(own.get("/v1/whoami").await.is(200)["is_house"], true);
    assert_eq!(
        server.client().get("/v1/whoami").await.problem(401),
        "unauthorized"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_are_kept() {
    let server = closed_server().await;
    let enqueuer = token(&server, "shop", &["enqueue"], &[]).await;
    let worker = token(&server, "shop", &["work"], &[]).await;
    let reader = token(&server, "shop", &["read"], &[]).await;
    let id = enqueuer.enqueue(json!({"queue": "mail", "payload": 1})).await;
    assert_eq!(
        enqueuer.get(&format!("/v1/jobs/{id}")).await.problem(403),
        "forbidden"
    );
    assert_eq!(
        reader
            .post("/v1/jobs", json!({"queue": "mail"}))
            .await
            .problem(403),
        "forbidden"
    );
    reader.get(&format!("/v1/jobs/{id}")).await.is(200);
    worker.work("mail", json!(1)).await;
    assert_eq!(worker.get("/v1/tokens").await.problem(403), "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_owns_is_invisible_to_others() {
    let server = closed_server().await;
    let all = ["enqueue", "work", "read"];
    let (shop, bank) = (
        token(&server, "shop", &all, &[]).await,
        token(&server, "bank", &all, &[]).await,
    );
    let id = shop.enqueue(json!({"queue": "mail", "payload": 1})).await;
    assert_eq!(
        bank.get(&format!("/v1/jobs/{id}")).await.problem(404),
        "not-found"
    );
    assert_eq!(
        bank.get(&format!("/v1/jobs/{id}/events")).await.problem(404),
        "not-found"
    );
    let cancel = bank
        .send("POST", &format!("/v1/jobs/{id}/cancel"), None, &[])
        .await;
    assert_eq!(cancel.problem(404), "not-found");
    assert_eq!(bank.get("/v1/jobs").await.is(200)["jobs"], json!([]));
    let none = bank
        .post("/v1/queues/mail/claim", json!({"worker": "w"}))
        .await
        .is(200);
    assert_eq!(
        none["jobs"],
        json!([]),
        "a worker of the bank does not get the shop's jobs"
    );
    let disguised = json!({"queue": "mail", "payload": 1, "tenant": "shop"});
    assert_eq!(bank.post("/v1/jobs", disguised).await.problem(403), "forbidden");
    let house_worker = server.client().with_token("the house's");
    assert_eq!(house_worker.claim("mail").await["tenant"], "shop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_be_bound_to_queues() {
    let server = closed_server().await;
    let client = token(&server, "shop", &["enqueue", "read"], &["mail"]).await;
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    assert_eq!(
        client
            .post("/v1/jobs", json!({"queue": "post"}))
            .await
            .problem(403),
        "forbidden"
    );
    assert_eq!(client.get("/v1/jobs").await.problem(403), "forbidden");
    client.get("/v1/jobs?queue=mail").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_expired_token_is_worth_nothing() {
    let server = closed_server().await;
    let admin = server.client().with_token("the house's");
    let client = token(&server, "shop", &["read"], &[]).await;
    client.get("/v1/jobs").await.is(200);
    let listed = admin.get("/v1/tokens").await.is(200);
    assert_eq!(listed["tokens"][0]["scopes"], json!(["read"]));
    assert!(
        listed["tokens"][0].get("token").is_none(),
        "secrets are shown once"
    );
    admin.delete("/v1/tokens/shop/shop-read").await.is(204);
    assert_eq!(client.get("/v1/jobs").await.problem(401), "unauthorized");
    let request =
        json!({"tenant": "shop", "name": "old", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"});
    let old = admin.post("/v1/tokens", request).await.is(201);
    let old = server.client().with_token(old["token"].as_str().unwrap());
    assert_eq!(old.get("/v1/jobs").await.problem(401), "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_asks_for_the_same_tokens() {
    let server = closed_server().await;
    let mut client = server.grpc().await;
    let request = EnqueueRequest {
        queue: "mail".into(),
        ..EnqueueRequest::default()
    };
    let refused = client.enqueue(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let mut request = Request::new(request);
    let value = "Bearer the house's".parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    assert!(client.enqueue(request).await.unwrap().into_inner().id > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_command_an_open_server() {
    let server = TestServer::start().await;
    let client = server.client();
    let evil = [("origin", "http://evil.test")];
    let answer = client.send("POST", "/v1/queues/mail/pause", None, &evil).await;
    assert_eq!(answer.problem(403), "forbidden");
    let own = format!("http://{}", server.address);
    let answer = client
        .send("POST", "/v1/queues/mail/pause", None, &[("origin", &own)])
        .await;
    answer.is(204);
}
