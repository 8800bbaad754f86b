//! The matrix of rights of the routes that are not the jobs': every route and page, called by everybody there is.
//!
//! What each caller gets is data, `src/http/rights.txt`. The test fails for a route that is not in it, for an answer
//! that differs, and for an answer that shows the room's values to those who may not read them.
//! `UPDATE_DOCS=1 cargo test -p nagaya --test it rights` writes the answers anew; read the difference.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use nagaya_testkit::RespClient;

const TOKEN: &str = "a-token-for-tests";
/// A value in the room. Only those who may read the room see it.
const SECRET: &str = "value-of-the-room";

/// How a caller shows who it is.
struct Caller {
    name: &'static str,
    /// Sent as a bearer to the API.
    token: Option<String>,
    /// The console's cookie; who cannot sign in has none.
    session: Option<String>,
}

struct Walk {
    house: Nagaya,
    redis: RespClient,
    callers: Vec<Caller>,
}

impl Walk {
    fn open() -> Walk {
        let house = house()
            .listener("fanout")
            .listener("ids")
            .env("NAGAYA_HTTP__TOKEN", TOKEN)
            .args(["--set", "fleet.enabled=true"])
            .start();
        let redis = RespClient::connect(house.address("room")).unwrap();
        let mut walk = Walk {
            house,
            redis,
            callers: Vec::new(),
        };
        walk.callers = walk.make_callers();
        walk
    }

    fn make_callers(&self) -> Vec<Caller> {
        let all = &["enqueue", "work", "read"][..];
        let mut tokens = vec![
            ("nobody", None),
            ("wrong", Some("a-guess-of-16-bytes".to_owned())),
        ];
        for (name, tenant, scopes, queue) in [
            ("read", "default", &["read"][..], None),
            ("enqueue", "default", &["enqueue"], None),
            ("work", "default", &["work"], None),
            ("admin", "default", &["admin"], None),
            ("other", "shop", all, None),
            ("bound", "default", all, Some("mail")),
            ("revoked", "default", &["admin"], None),
        ] {
            tokens.push((name, Some(self.make_token(name, tenant, scopes, queue))));
        }
        // The session of the revoked token was opened while the token was good.
        let callers = tokens.into_iter().map(|(name, token)| Caller {
            name,
            session: token.as_deref().and_then(|token| self.sign_in(token)),
            token,
        });
        let callers: Vec<Caller> = callers.collect();
        let revoke = format!("DELETE /v1/tokens/default/revoked HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
        assert_eq!(status_of(&ask(self.house.address("http"), &revoke)), 204);
        callers
    }

    fn make_token(&self, name: &str, tenant: &str, scopes: &[&str], queue: Option<&str>) -> String {
        let queues: Vec<&str> = queue.into_iter().collect();
        let form = serde_json::json!({"tenant": tenant, "name": name, "scopes": scopes, "queues": queues});
        let head = "POST /v1/tokens HTTP/1.1\r\ncontent-type: application/json";
        let head = format!("{head}\r\nauthorization: Bearer {TOKEN}");
        let answer = self.send(&head, &form.to_string());
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let made: serde_json::Value = serde_json::from_str(body).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// Returns the cookie of a session, if the token opens one.
    fn sign_in(&self, token: &str) -> Option<String> {
        let word = self.form_word(None);
        let head = "POST /sign-in HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded";
        let answer = self.send(head, &format!("token={token}&form_word={word}"));
        let (_, cookie) = answer.split_once("set-cookie: ")?;
        Some(cookie.split(';').next().unwrap().to_owned())
    }

    /// Returns the anti-forgery token of a session, from the page that everybody may see.
    fn form_word(&self, session: Option<&str>) -> String {
        let cookie = session.map_or_else(String::new, |session| format!("\r\ncookie: {session}"));
        let page = ask(
            self.house.address("http"),
            &format!("GET /sign-in HTTP/1.1{cookie}"),
        );
        let (_, after) = page.split_once("name=\"form_word\" value=\"").unwrap();
        after.split('"').next().unwrap().to_owned()
    }

    /// Returns the path of a file that pages use.
    fn asset(&self) -> String {
        let page = ask(self.house.address("http"), "GET /sign-in HTTP/1.1");
        let (_, after) = page.split_once("href=\"/assets/").unwrap();
        format!("/assets/{}", after.split('"').next().unwrap())
    }

    fn send(&self, head: &str, body: &str) -> String {
        let length = body.len();
        let request = format!(
            "{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        read_all(&mut send(self.house.address("http"), &request))
    }

    /// Calls a route with what it is about made anew, as some calls destroy it.
    fn call(&mut self, right: &nagaya::Right, caller: usize) -> String {
        self.redis.cmd(&["SET", "{t}:name", SECRET]).unwrap();
        let path = right
            .path
            .replace("{tag}", "t")
            .replace("{id}", "1")
            .replace("{queue}", "mail")
            .replace("{method}", "Fetch");
        let path = match right.path {
            "/assets/{name}" => self.asset(),
            _ => path.replace("{name}", "x"),
        };
        let mut head = format!("{} {path} HTTP/1.1", right.method);
        let mut body = String::new();
        let caller = &self.callers[caller];
        let is_page = matches!(right.needs, nagaya::Needs::Session) || right.path == "/sign-in";
        match (&caller.token, &caller.session) {
            (_, Some(session)) if is_page => head += &format!("\r\ncookie: {session}"),
            (Some(token), _) if !is_page => head += &format!("\r\nauthorization: Bearer {token}"),
            _ => (),
        }
        if is_page && right.method == "POST" {
            head += "\r\ncontent-type: application/x-www-form-urlencoded";
            let session = caller.session.as_deref();
            let token = caller.token.as_deref().unwrap_or_default();
            // What some forms ask for besides; without it they only ask again.
            let asked = "name=t&digest=x";
            body = format!("form_word={}&token={token}&{asked}", self.form_word(session));
        } else if right.path.contains('.') && right.method == "POST" {
            head += "\r\ncontent-type: application/grpc\r\nte: trailers";
        } else if right.method == "POST" {
            head += "\r\ncontent-type: application/json";
            body = "{}".to_owned();
        }
        self.send(&head, &body)
    }
}

fn status_of(answer: &str) -> u16 {
    answer[9..12].parse().unwrap()
}

/// Returns the status; pages lead those to the sign-in whom the API would answer 401.
fn outcome(right: &nagaya::Right, answer: &str) -> u16 {
    let to_sign_in = right.path != "/sign-out" && answer.contains("\r\nlocation: /sign-in");
    match status_of(answer) {
        303 if to_sign_in => 401,
        status => status,
    }
}

/// The routes that the jobs' own matrix does not have. Signing out ends the session, so it comes last.
fn routes() -> Vec<nagaya::Right> {
    let of_jobs = |right: &nagaya::Right| {
        let jobs = nagaya_jobs_api::RIGHTS.lines();
        jobs.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>())
            .any(|words| words == [right.method, right.path])
    };
    let is_walked = |right: &nagaya::Right| !of_jobs(right) && right.needs != nagaya::Needs::OfMessage;
    let mut routes: Vec<_> = nagaya::rights().into_iter().filter(is_walked).collect();
    routes.sort_by_key(|right| right.path == "/sign-out");
    routes
}

#[test]
fn every_route_and_page_answers_every_caller_as_the_matrix_says() {
    let mut walk = Walk::open();
    let mut found = String::new();
    for right in routes() {
        found += &format!("{:<6} {:<40}", right.method, right.path);
        for caller in 0..walk.callers.len() {
            let answer = walk.call(&right, caller);
            let name = walk.callers[caller].name;
            let may_see = ["read", "admin"].contains(&name);
            assert!(
                may_see || !answer.contains(SECRET),
                "{name} sees the room by {} {}: {answer}",
                right.method,
                right.path
            );
            found += &format!(" {}", outcome(&right, &answer));
        }
        found.push('\n');
    }
    compare(&found);
}

/// Compares the answers with those that are written down.
fn compare(found: &str) {
    let comments: String = nagaya::RIGHTS
        .lines()
        .filter(|line| line.starts_with('#') || line.starts_with("METHOD"))
        .map(|line| format!("{line}\n"))
        .collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/rights.txt");
        fs::write(path, comments.clone() + found).unwrap();
        return;
    }
    let split = |text: &str| -> BTreeMap<String, String> {
        let rows = text.lines().filter(|line| !comments.contains(*line));
        rows.map(|line| line.split_at(47))
            .map(|(route, answers)| (route.to_owned(), answers.to_owned()))
            .collect()
    };
    let (expected, found) = (split(nagaya::RIGHTS), split(found));
    for (route, answers) in &found {
        assert_eq!(expected.get(route), Some(answers), "{route}");
    }
    assert_eq!(
        expected.len(),
        found.len(),
        "the matrix has routes that do not exist"
    );
}
