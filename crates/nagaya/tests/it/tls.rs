//! TLS on the HTTP listeners, and the commands that speak it.

use super::*;

use nagaya_http_kit::hosts::HostRule;
use nagaya_http_kit::proxies::Proxies;
use nagaya_http_kit::server::{BodyLimits, Options, Tls};
use nagaya_testkit::{Signal, wait};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::PathBuf;
use std::process::{Command, Output};

const TOKEN: &str = "a-token-for-tests";

/// Certificate and key in a folder.
pub(crate) struct Certificate {
    folder: Folder,
}

impl Certificate {
    pub(crate) fn new() -> Certificate {
        let certificate = Certificate {
            folder: Folder::new("tls"),
        };
        certificate.renew();
        certificate
    }

    /// Writes another certificate over the old one, and returns its text.
    fn renew(&self) -> String {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        std::fs::write(self.file("key.pem"), signing_key.serialize_pem()).unwrap();
        std::fs::write(self.file("cert.pem"), cert.pem()).unwrap();
        cert.pem()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self, section: &str) -> Vec<String> {
        ["cert", "key"]
            .iter()
            .flat_map(|name| {
                let file = self.file(&format!("{name}.pem"));
                [
                    "--set".to_owned(),
                    format!("{section}.tls_{name}={}", file.display()),
                ]
            })
            .collect()
    }
}

/// A server of tests behind TLS, without limits that matter.
pub(crate) fn server_options(tls: Tls) -> Options {
    Options {
        section: "test",
        connections_max: 100,
        connections_per_address: 100,
        head_timeout: LIMIT,
        head_bytes_max: 16 << 10,
        body: BodyLimits {
            timeout: LIMIT,
            bytes_per_second: 1000,
            held_max: 64 << 20,
        },
        streams_max: 100,
        write_timeout: None,
        accept_pause: Duration::from_millis(10),
        probes: &[],
        hosts: HostRule {
            is_loopback: true,
            ..HostRule::default()
        },
        proxies: Proxies::default(),
        tls: Some(tls),
    }
}

fn curl(words: &[&str]) -> Output {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "10"])
        .args(words)
        .output();
    output.expect("curl is missing; scripts/test installs it")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a server whose HTTP and fan-out listeners speak TLS, and waits until it is ready.
fn secure_house(certificate: &Certificate, more: &[&str]) -> Nagaya {
    let house = house()
        .listener("fanout")
        .env("NAGAYA_HTTP__TOKEN", TOKEN)
        .args(certificate.settings("http"))
        .args(certificate.settings("fanout"))
        .args(more)
        .launch()
        .unwrap();
    wait::until("the server is ready", LIMIT, || {
        house.process().stderr().contains("is ready")
    });
    house
}

#[test]
fn both_listeners_speak_tls_with_both_protocols_and_the_cookie_is_for_tls_alone() {
    let certificate = Certificate::new();
    let house = secure_house(&certificate, &[]);
    let ca = certificate.file("cert.pem");
    let ca = ca.to_str().unwrap();
    let bearer = format!("authorization: Bearer {TOKEN}");
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let url = format!("https://{}/version", house.address("http"));
        let answer = curl(&["--cacert", ca, flag, "-H", &bearer, "-w", "%{http_version}", &url]);
        let answer = text(&answer);
        assert!(
            answer.contains("\"nagaya\"") && answer.ends_with(version),
            "{answer}"
        );
        let url = format!("https://{}/p", house.address("fanout"));
        let answer = text(&curl(&[
            "--cacert",
            ca,
            flag,
            "-w",
            "%{http_code} %{http_version}",
            &url,
        ]));
        assert!(answer.ends_with(&format!("503 {version}")), "{answer}");
    }
    let base = format!("https://{}", house.address("http"));
    let page = text(&curl(&["--cacert", ca, &format!("{base}/sign-in")]));
    let (_, after) = page.split_once("name=\"form_word\" value=\"").unwrap();
    let form = format!("token={TOKEN}&form_word={}", after.split('"').next().unwrap());
    let answer = text(&curl(&[
        "--cacert",
        ca,
        "-i",
        "-d",
        &form,
        &format!("{base}/sign-in"),
    ]));
    let cookie = answer
        .lines()
        .find(|line| line.starts_with("set-cookie: "))
        .unwrap();
    assert!(cookie.contains("; Secure"), "{cookie}");
    // Plain HTTP is not answered.
    let plain = read_all(&mut send(
        house.address("http"),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ));
    assert!(!plain.contains("200"), "{plain}");
}

#[test]
fn a_hangup_brings_the_new_certificate_and_a_bad_one_changes_nothing() {
    let certificate = Certificate::new();
    let house = secure_house(&certificate, &[]);
    let old = Folder::new("old");
    let old_ca = old.path().join("old.pem");
    std::fs::copy(certificate.file("cert.pem"), &old_ca).unwrap();
    let trusted = |ca: &PathBuf, listener: &str| {
        let url = format!("https://{}/healthz", house.address(listener));
        curl(&["--cacert", ca.to_str().unwrap(), &url]).status.success()
    };
    std::fs::write(certificate.file("cert.pem"), "no certificate").unwrap();
    house.process().signal(Signal::HUP);
    wait::until("the bad file is told", LIMIT, || {
        house
            .process()
            .stderr()
            .matches("the certificate stays as it is")
            .count()
            >= 2
    });
    assert!(trusted(&old_ca, "http") && trusted(&old_ca, "fanout"));
    certificate.renew();
    house.process().signal(Signal::HUP);
    for listener in ["http", "fanout"] {
        wait::until("the new certificate is shown", LIMIT, || {
            trusted(&certificate.file("cert.pem"), listener)
        });
        assert!(!trusted(&old_ca, listener));
    }
}

#[test]
fn with_a_client_authority_only_its_clients_get_in() {
    let certificate = Certificate::new();
    let client = Certificate::new();
    let ca = client.file("cert.pem");
    let setting = format!("http.tls_client_ca={}", ca.display());
    let house = secure_house(&certificate, &["--set", &setting]);
    let url = format!("https://{}/healthz", house.address("http"));
    let server_ca = certificate.file("cert.pem");
    let server_ca = server_ca.to_str().unwrap();
    assert!(!curl(&["--cacert", server_ca, &url]).status.success());
    let key = client.file("key.pem");
    let shown = ["--cert", ca.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let mut words = vec!["--cacert", server_ca];
    words.extend(shown);
    words.push(&url);
    assert_eq!(text(&curl(&words)), r#"{"status":"ok"}"#);
}

#[test]
fn commands_speak_https_and_trust_what_they_are_told_to() {
    let certificate = Certificate::new();
    let house = secure_house(&certificate, &[]);
    let url = format!("https://{}", house.address("http"));
    let fanout = format!("https://{}", house.address("fanout"));
    let ca = certificate.file("cert.pem");
    let ca = ca.to_str().unwrap();
    let token = [("NAGAYA_TOKEN", TOKEN)];
    for words in [
        &["status"][..],
        &["token", "list"],
        &["token", "create", "reader"],
        &["jobs", "enqueue", "mail", "{}"],
        &["jobs", "list"],
    ] {
        let with_ca = [words, &["--url", &url, "--ca", ca]].concat();
        let ran = run_with(with_ca, &token);
        assert_eq!(ran.code, Some(0), "{words:?}: {}{}", ran.stdout, ran.stderr);
        let without = run_with([words, &["--url", &url]].concat(), &token);
        assert_ne!(without.code, Some(0), "{words:?}");
    }
    let by_setting = [("NAGAYA_TOKEN", TOKEN), ("NAGAYA_HTTP__CA", ca)];
    assert_eq!(run_with(["status", "--url", &url], &by_setting).code, Some(0));
    let ran = run_with(["fanout", "get", "4711", "--url", &fanout, "--ca", ca], &token);
    assert!(ran.stderr.contains("there is no such request"), "{}", ran.stderr);
}
