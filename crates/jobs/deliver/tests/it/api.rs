//! The routes over HTTP.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use nagaya_deliver::api::{Api, Authorize, Permission, Principal, routes};
use nagaya_deliver::notify::{Config, Notifier};
use nagaya_jobs::TenantId;
use nagaya_jobs::delivery::DeliveryState;
use serde_json::Value;
use tower::ServiceExt;

use crate::fixture::{Fixture, client};
use crate::target::{Target, say};

/// Takes the caller from a header: `tenant`, or `admin`.
struct Open;

impl Authorize for Open {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        permission: Permission,
    ) -> BoxFuture<'a, Result<Principal, Response>> {
        let who = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let is_admin = who == "admin";
        let answer = match (who.is_empty(), permission == Permission::Admin && !is_admin) {
            (true, _) => Err(StatusCode::UNAUTHORIZED.into_response()),
            (_, true) => Err(StatusCode::FORBIDDEN.into_response()),
            _ => Ok(Principal {
                tenant: TenantId::new(if is_admin { "default" } else { who }).unwrap(),
                is_admin,
                queues: Vec::new(),
            }),
        };
        Box::pin(async move { answer })
    }
}

async fn call(fixture: &Fixture, who: &str, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let api = Api {
        store: Arc::clone(&fixture.store),
        authorize: Arc::new(Open),
        notifier: Notifier::new(Arc::clone(&fixture.store), Config::default()).unwrap(),
    };
    let mut request = Request::builder().method(method).uri(path);
    if !who.is_empty() {
        request = request.header("authorization", who);
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request
        .body(HttpBody::from(body.unwrap_or_default().to_owned()))
        .unwrap();
    let answer = routes(api).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn deliveries_are_listed_and_replayed() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| say(410)).await;
    let job = fixture.ended(&target.url()).await;
    let other = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    for job in [job, other] {
        fixture
            .delivery_that(job, |view| view.delivery.state == DeliveryState::GaveUp)
            .await;
    }
    let (status, page) = call(
        &fixture,
        "admin",
        "GET",
        "/v1/deliveries?state=gave_up&limit=1",
        None,
    )
    .await;
    assert_eq!(
        (status, page["deliveries"][0]["job"].clone()),
        (200, other.to_string().into())
    );
    assert_eq!(page["deliveries"][0]["tries"][0]["status"], 410);
    let path = format!(
        "/v1/deliveries?limit=1&cursor={}",
        page["next_cursor"].as_str().unwrap()
    );
    let (_, page) = call(&fixture, "admin", "GET", &path, None).await;
    assert_eq!(page["deliveries"][0]["job"], job.to_string());
    let (_, none) = call(&fixture, "shop", "GET", "/v1/deliveries", None).await;
    assert_eq!(none["deliveries"], Value::Array(Vec::new()), "another tenant's");
    let body = format!(r#"{{"job":"{job}"}}"#);
    let (_, none) = call(&fixture, "shop", "POST", "/v1/deliveries/replay", Some(&body)).await;
    assert_eq!(none["replayed"], 0);
    let (status, done) = call(&fixture, "default", "POST", "/v1/deliveries/replay", Some(&body)).await;
    assert_eq!((status, done["replayed"].clone()), (200, 1.into()));
    fixture.delivery_that(job, |view| view.delivery.tries == 2).await;
    let since = r#"{"queue":"q","since":"2020-01-01T00:00:00Z"}"#;
    let (_, done) = call(&fixture, "admin", "POST", "/v1/deliveries/replay", Some(since)).await;
    assert_eq!(
        (done["replayed"].clone(), done["more"].clone()),
        (2.into(), false.into())
    );
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_does_not_fit_is_answered_with_a_problem() {
    let fixture = Fixture::new();
    for (method, path, body) in [
        ("GET", "/v1/deliveries?state=lost", None),
        ("GET", "/v1/deliveries?job=x", None),
        ("GET", "/v1/deliveries?cursor=x", None),
        ("GET", "/v1/deliveries?limit=0", None),
        ("GET", "/v1/deliveries?nonsense=1", None),
        ("POST", "/v1/deliveries/replay", Some("{}")),
        ("POST", "/v1/deliveries/replay", Some(r#"{"since":"yesterday"}"#)),
        ("POST", "/v1/deliveries/replay", Some("[")),
    ] {
        let (status, problem) = call(&fixture, "admin", method, path, body).await;
        assert_eq!(
            (status, problem["type"].as_str()),
            (400, Some("/problems/bad-request")),
            "{path} {body:?}"
        );
    }
    assert_eq!(
        call(&fixture, "admin", "POST", "/v1/deliveries/replay", None)
            .await
            .0,
        415
    );
    assert_eq!(call(&fixture, "", "GET", "/v1/deliveries", None).await.0, 401);
    assert_eq!(
        call(&fixture, "shop", "GET", "/v1/deliveries?tenant=bank", None)
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn a_tenant_sees_its_own_secrets_and_an_administrator_changes_them() {
    let fixture = Fixture::new();
    let (_, shop) = call(&fixture, "shop", "GET", "/v1/webhooks/secret", None).await;
    let (_, same) = call(&fixture, "admin", "GET", "/v1/webhooks/secret?tenant=shop", None).await;
    let (_, other) = call(&fixture, "bank", "GET", "/v1/webhooks/secret", None).await;
    assert!(shop["secrets"][0].as_str().unwrap().starts_with("whsec_"));
    assert!(shop == same && shop != other);
    assert_eq!(
        call(&fixture, "shop", "POST", "/v1/webhooks/rotate", None)
            .await
            .0,
        403
    );
    let (_, both) = call(&fixture, "admin", "POST", "/v1/webhooks/rotate?tenant=shop", None).await;
    assert_eq!(
        (&both["secrets"][1], both["secrets"].as_array().unwrap().len()),
        (&shop["secrets"][0], 2)
    );
}

#[tokio::test]
async fn a_route_that_is_not_there_is_said_to_be_so() {
    let fixture = Fixture::new();
    let (status, problem) = call(
        &fixture,
        "admin",
        "POST",
        "/v1/notify/test",
        Some(r#"{"route":"ops"}"#),
    )
    .await;
    assert_eq!(
        (status, problem["detail"].as_str()),
        (404, Some("there is no route ops"))
    );
}
