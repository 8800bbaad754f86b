//! The OpenAPI document is served as it is kept in `docs/`.

use std::path::Path;

use super::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served() {
    let server = TestServer::start().await;
    let document = server.client().get("/openapi.json").await.is(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/jobs"]["post"].is_object());
}

/// `UPDATE_DOCS=1 cargo test -p nagaya-jobs-api --test it document` rewrites it.
#[test]
fn docs_hold_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi.json");
    let text = nagaya_jobs_api::openapi_text();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/openapi.json is stale: UPDATE_DOCS=1 cargo test -p nagaya-jobs-api --test it document"
    );
}
