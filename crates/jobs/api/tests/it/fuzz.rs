//! A fuzzer that reads our OpenAPI document finds no 5xx and no response that the document does not describe.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nagaya_jobs::service::Config;
use nagaya_jobs_api::{ApiConfig, AuthConfig};

use super::test_server::TestServer;

/// Checks of schemathesis that must hold.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection";
/// Streams never end, and a WebSocket has no HTTP response.
const ENDLESS: [&str; 3] = ["events", "job_events", "websocket"];

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing() {
    let open = AuthConfig {
        server_token: None,
        open: true,
    };
    let api = ApiConfig {
        wait_max: Duration::from_millis(50),
        ..ApiConfig::default()
    };
    let server = TestServer::with(open, api, Config::default()).await;
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clients/py");
    assert!(
        installed.join("schemathesis").exists(),
        "schemathesis is missing; scripts/clients installs it"
    );
    // Bounded by cases, not by time: a loaded machine takes longer but tests as much. The short form always
    // tries the same cases; the long one explores new ones.
    let is_long = std::env::var_os("NAGAYA_TEST_LONG").is_some();
    let (phases, examples) = if is_long {
        ("coverage,fuzzing,stateful", "100")
    } else {
        ("coverage,fuzzing", "5")
    };
    let folder = tempfile::tempdir().unwrap();
    let mut fuzzer = Command::new("python3");
    fuzzer
        .args(["-m", "schemathesis.cli", "--no-color", "run"])
        .arg(format!("http://{}/openapi.json", server.address))
        .args(["--checks", CHECKS, "--phases", phases, "--max-examples", examples])
        .args(["--request-timeout", "20", "--suppress-health-check", "all"])
        .args((!is_long).then_some("--generation-deterministic"))
        .args(ENDLESS.iter().flat_map(|id| ["--exclude-operation-id", id]))
        .current_dir(folder.path())
        .env("PYTHONPATH", &installed)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = tokio::task::spawn_blocking(move || fuzzer.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}");
    assert!(
        ran.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    // A run that did not reach every operation proves nothing.
    let fuzzing = said.split("Fuzzing (in").nth(1).unwrap_or_default();
    let operations = said.split("Operations:").nth(1).unwrap_or_default();
    let tested = first_number(fuzzing.split_once("✅").unwrap_or_default().1);
    assert_eq!(tested, first_number(operations), "{said}");
    assert_eq!(server.jobs.store().check().await.unwrap(), []);
}

fn first_number(text: &str) -> Option<u32> {
    let digits: String = text
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}
