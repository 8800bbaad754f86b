//! Who gets in: names and pages, passwords and tokens, on every listener.

use super::*;
use nagaya_testkit::{RespClient, http, wait};

const TOKEN: &str = "a-token-for-tests";

/// Sends a request with these headers after its first line, and reads the whole answer.
fn ask_as(address: SocketAddr, host: &str, head: &str, body: &str) -> String {
    let length = body.len();
    let request =
        format!("{head}\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    read_all(&mut send(address, &request))
}

#[track_caller]
fn answers(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

/// What a page would try, each with what would change or be read.
const TRIES: &[(&str, &str)] = &[
    (
        "POST /v1/tokens HTTP/1.1\r\ncontent-type: application/json",
        r#"{"tenant":"default","name":"x","scopes":["admin"]}"#,
    ),
    ("GET /v1/room/tags/%7Bt%7D/export HTTP/1.1", ""),
    ("DELETE /v1/room/tags/%7Bt%7D HTTP/1.1", ""),
    ("GET /v1/webhooks/secret HTTP/1.1", ""),
    ("GET /v1/events HTTP/1.1\r\naccept: text/event-stream", ""),
    (
        "GET /v1/ws HTTP/1.1\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
    ),
    ("GET /metrics HTTP/1.1", ""),
    ("GET /healthz HTTP/1.1", ""),
    ("GET / HTTP/1.1", ""),
    (
        "POST /nagaya.jobs.v1.Jobs/Enqueue HTTP/1.1\r\ncontent-type: application/grpc",
        "",
    ),
];

#[test]
fn a_page_under_a_name_of_its_own_is_answered_421_on_every_route() {
    let house = house().listener("fanout").start();
    for listener in ["http", "fanout"] {
        let address = house.address(listener);
        let evil = format!("evil.test:{}", address.port());
        for (head, body) in TRIES {
            let head = format!("{head}\r\norigin: http://{evil}");
            let answer = ask_as(address, &evil, &head, body);
            answers(&answer, 421);
            assert!(
                answer.contains("application/problem+json") && answer.contains("`http.hosts`"),
                "{answer}"
            );
        }
    }
    let tokens = house.get("/v1/tokens").unwrap().body;
    assert_eq!(tokens, r#"{"tokens":[]}"#);
}

#[test]
fn a_page_of_another_origin_is_refused_on_every_route() {
    let house = house().listener("fanout").start();
    for listener in ["http", "fanout"] {
        let address = house.address(listener);
        for (head, body) in TRIES {
            for origin in ["http://evil.test", "null", "http://localhost:3000"] {
                let head = format!("{head}\r\norigin: {origin}");
                answers(&ask_as(address, &address.to_string(), &head, body), 403);
            }
        }
    }
}

#[test]
fn a_foreign_name_is_refused_over_http_2_as_well() {
    let house = house().listener("fanout").start();
    for listener in ["http", "fanout"] {
        let address = house.address(listener);
        let ask = |host: &str| {
            let ran = std::process::Command::new("curl")
                .args(["--silent", "--http2-prior-knowledge", "--output", "/dev/null"])
                .args(["--write-out", "%{http_version} %{http_code}", "--header"])
                .arg(format!("host: {host}"))
                .arg(format!("http://{address}/v1/tokens"))
                .output()
                .unwrap();
            String::from_utf8(ran.stdout).unwrap()
        };
        assert_eq!(ask(&format!("evil.test:{}", address.port())), "2 421");
        let own = ask(&address.to_string());
        assert!(own.starts_with("2 ") && own != "2 421", "{own}");
    }
}

#[test]
fn listed_names_are_answered_to() {
    let house = house()
        .listener("fanout")
        .args(["--set", "http.hosts=jobs.example.com,*.lan"])
        .start();
    for listener in ["http", "fanout"] {
        let address = house.address(listener);
        for (host, is_known) in [
            ("jobs.example.com", true),
            ("a.lan:80", true),
            ("localhost", true),
            ("evil.test", false),
        ] {
            let answer = ask_as(address, host, "GET /version HTTP/1.1", "");
            assert_eq!(!answer.starts_with("HTTP/1.1 421 "), is_known, "{host}: {answer}");
        }
    }
}

#[test]
fn a_house_with_a_token_answers_to_every_name_and_shows_nothing_without_it() {
    let house = house().env("NAGAYA_HTTP__TOKEN", TOKEN).start();
    let address = house.address("http");
    let with_token = format!("GET /version HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
    answers(&ask_as(address, "jobs.example.com", &with_token, ""), 200);
    answers(
        &ask_as(address, "jobs.example.com", "GET /version HTTP/1.1", ""),
        401,
    );
    let read_by_page = "GET /v1/tokens HTTP/1.1\r\norigin: http://jobs.example.com";
    answers(&ask_as(address, "jobs.example.com", read_by_page, ""), 401);
}

#[test]
fn without_a_token_every_route_answers_as_the_table_of_rights_says() {
    let house = house()
        .listener("fanout")
        .listener("ids")
        .env("NAGAYA_HTTP__TOKEN", TOKEN)
        .start();
    for right in nagaya::rights() {
        let path: String = right
            .path
            .split('/')
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        // Only HTTP/2 reaches gRPC's handlers.
        if right.needs == nagaya::Needs::OfMessage {
            continue;
        }
        let head = format!("{} {path} HTTP/1.1", right.method);
        let status = ask_as(house.address("http"), "localhost", &head, "")[9..12].to_owned();
        let is_right = match right.needs {
            nagaya::Needs::Nothing => status != "401",
            // The token may still come in the first message.
            _ if right.path == "/v1/ws" => status == "400",
            // Without the fleet nothing takes webhooks.
            nagaya::Needs::OwnSecret => ["401", "403", "404"].contains(&status.as_str()),
            nagaya::Needs::Session if right.method == "GET" => status == "303",
            // The form carries no word.
            nagaya::Needs::Session => status == "403",
            _ => status == "401",
        };
        assert!(is_right, "{head} ({:?}) is answered {status}", right.needs);
    }
}

fn room_with_alice(house: &Nagaya, password: Option<&str>) -> RespClient {
    let mut redis = RespClient::connect(house.address("room")).unwrap();
    if let Some(password) = password {
        redis.cmd(&["AUTH", password]).unwrap();
    }
    redis.cmd(&["SET", "{t}:name", "alice"]).unwrap();
    redis
}

#[track_caller]
fn room_data_is(house: &Nagaya, status: u16) {
    for head in [
        "GET /v1/room/tags/t/export HTTP/1.1",
        "GET /v1/room/tags/t HTTP/1.1",
        "GET /v1/room/tags HTTP/1.1",
        "POST /v1/room/tags/t/warm HTTP/1.1",
        "GET /room/tags/t/export HTTP/1.1",
        "GET /room HTTP/1.1",
        "DELETE /v1/room/tags/t HTTP/1.1",
    ] {
        let answer = ask(house.address("http"), &format!("{head}\r\ncontent-length: 0"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head}: {answer}"
        );
        if status == 403 {
            assert!(!answer.contains("alice"), "{answer}");
            assert!(answer.contains("http.token"), "{answer}");
        }
    }
}

#[test]
fn the_rooms_password_guards_its_data_over_http_as_well() {
    let house = house().args(["--set", "room.password=secret"]).start();
    let mut redis = room_with_alice(&house, Some("secret"));
    room_data_is(&house, 403);
    answers(&ask(house.address("http"), "GET /v1/room HTTP/1.1"), 200);
    assert_eq!(redis.cmd(&["GET", "{t}:name"]).unwrap().text(), "alice");
}

#[test]
fn with_a_token_the_rooms_data_is_shown_whatever_its_password() {
    let house = house()
        .env("NAGAYA_HTTP__TOKEN", TOKEN)
        .args(["--set", "room.password=secret"])
        .start();
    room_with_alice(&house, Some("secret"));
    let head = format!("GET /v1/room/tags/t/export HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
    let answer = ask(house.address("http"), &head);
    assert!(answer.contains("alice"), "{answer}");
}

#[test]
fn a_user_with_a_password_closes_the_rooms_data_over_http() {
    let house = house().start();
    let mut redis = room_with_alice(&house, None);
    answers(
        &ask(house.address("http"), "GET /v1/room/tags/t/export HTTP/1.1"),
        200,
    );
    redis
        .cmd(&["ACL", "SETUSER", "shop", "on", ">a-long-password", "~*", "+@all"])
        .unwrap();
    room_data_is(&house, 403);
}

#[test]
fn the_fanouts_token_guards_its_requests_over_http_as_well() {
    let house = house()
        .listener("fanout")
        .env("NAGAYA_FANOUT__TOKEN", TOKEN)
        .start();
    for path in ["/v1/fanout/requests", "/v1/fanout/requests/4711"] {
        let answer = ask(house.address("http"), &format!("GET {path} HTTP/1.1"));
        answers(&answer, 403);
        assert!(answer.contains("`http.token`"), "{answer}");
    }
    answers(&ask(house.address("http"), "GET /v1/fanout HTTP/1.1"), 200);
}

#[test]
fn keys_of_the_room_are_not_read_back_by_the_fanout() {
    let house = house()
        .listener("fanout")
        .args(["--set", "room.password=secret"])
        .start();
    let mut redis = room_with_alice(&house, Some("secret"));
    redis.cmd(&["HSET", "4711", "user", "alice"]).unwrap();
    let answer = http::get(house.address("fanout"), "/requests/4711").unwrap();
    assert_eq!(answer.status, 404, "{}", answer.body);
    assert!(!answer.body.contains("alice"));
}

#[test]
fn where_tokens_exist_one_is_needed_even_without_a_token_of_the_house() {
    let data = Folder::new("tokens");
    let folder = data.path().join("data");
    let guarded = house().data(&folder).env("NAGAYA_HTTP__TOKEN", TOKEN).start();
    let url = format!("http://{}", guarded.address("http"));
    let made = run_with(
        ["token", "create", "boss", "--scope", "admin", "--url", &url],
        &[("NAGAYA_TOKEN", TOKEN)],
    );
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    guarded.shut_down();
    drop(guarded);
    let house = house().data(&folder).start();
    let address = house.address("http");
    for path in [
        "/v1/jobs",
        "/v1/tokens",
        "/metrics",
        "/v1/house",
        "/v1/webhooks/secret",
    ] {
        let answer = ask(address, &format!("GET {path} HTTP/1.1"));
        answers(&answer, 401);
        assert!(answer.contains("http.token"), "{answer}");
    }
    answers(&ask(address, "GET /readyz HTTP/1.1"), 200);
    let head = format!(
        "GET /v1/tokens HTTP/1.1\r\nauthorization: Bearer {}",
        made.stdout.trim()
    );
    answers(&ask(address, &head), 200);
}

#[test]
fn tokens_that_would_protect_nothing_are_not_made() {
    let house = house().start();
    let url = format!("http://{}", house.address("http"));
    let ran = run(["token", "create", "web", "--url", &url]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("http.token"), "{}", ran.stderr);
    let tokens = house.get("/v1/tokens").unwrap().body;
    assert_eq!(tokens, r#"{"tokens":[]}"#);
}

#[test]
fn a_token_for_metrics_reads_metrics_and_nothing_else() {
    let house = house().env("NAGAYA_HTTP__TOKEN", TOKEN).start();
    room_with_alice(&house, None);
    let url = format!("http://{}", house.address("http"));
    let made = run_with(
        [
            "token",
            "create",
            "prometheus",
            "--scope",
            "metrics",
            "--url",
            &url,
        ],
        &[("NAGAYA_TOKEN", TOKEN)],
    );
    let token = made.stdout.trim();
    for (path, status) in [
        ("/metrics", 200),
        ("/version", 403),
        ("/v1/house", 403),
        ("/v1/room/tags/t/export", 403),
        ("/v1/jobs", 403),
        ("/v1/queues", 403),
        ("/v1/whoami", 403),
        ("/v1/tokens", 403),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {token}");
        answers(&ask(house.address("http"), &head), status);
    }
}

#[test]
fn short_tokens_and_misspelt_variables_stop_the_start() {
    for (name, value, told) in [
        ("NAGAYA_HTTP__TOKEN", "a", "`http.token` has 1 bytes"),
        (
            "NAGAYA_FANOUT__TOKEN",
            "fifteen-letters",
            "`fanout.token` has 15 bytes",
        ),
        ("NAGAYA_HTTP_TOKEN", TOKEN, "did you mean NAGAYA_HTTP__TOKEN?"),
    ] {
        let ran = run_with(["up"], &[(name, value)]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("fifteen-letters"), "{}", ran.stderr);
    }
    let ran = run_with(["config", "check"], &[("NAGAYA_HTPP_TOKEN", TOKEN)]);
    assert!(
        ran.stdout.contains("the variable NAGAYA_HTPP_TOKEN sets nothing"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains(TOKEN));
}

#[test]
fn what_is_open_is_told_in_a_line_for_each_listener() {
    let ran = run(["config", "check"]);
    let open: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("open "))
        .collect();
    assert_eq!(open.len(), 4, "{}", ran.stdout);
    let house = house().start();
    let stderr = wait::value("the whole banner", LIMIT, || {
        Some(house.process().stderr()).filter(|stderr| stderr.contains("Ctrl-C stops it."))
    });
    assert!(
        stderr.contains("open     http: everybody on this machine may do everything; set `http.token`"),
        "{stderr}"
    );
}

#[test]
fn behind_a_proxy_clients_are_told_apart_and_the_right_token_is_never_locked_out() {
    let house = house()
        .env("NAGAYA_HTTP__TOKEN", TOKEN)
        .args(["--set", "http.trusted_proxies=127.0.0.1"])
        .start();
    let address = house.address("http");
    let sign_in = |client: &str, token: &str| {
        let page = ask(address, "GET /sign-in HTTP/1.1");
        let (_, after) = page.split_once("name=\"form_word\" value=\"").unwrap();
        let word = after.split('"').next().unwrap();
        let head = format!(
            "POST /sign-in HTTP/1.1\r\nx-forwarded-for: {client}\r\ncontent-type: application/x-www-form-urlencoded"
        );
        let answer = ask_as(
            address,
            "localhost",
            &head,
            &format!("token={token}&form_word={word}"),
        );
        answer[9..12].to_owned()
    };
    for _ in 0..8 {
        assert_eq!(sign_in("203.0.113.1", "wrong"), "403");
    }
    assert_eq!(sign_in("203.0.113.1", "wrong"), "429");
    assert_eq!(sign_in("203.0.113.2", "wrong"), "403");
    assert_eq!(sign_in("203.0.113.1", TOKEN), "303");
}
