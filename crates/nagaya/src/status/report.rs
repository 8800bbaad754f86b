//! The report of a server, as a table and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::services;
use super::units::duration;
use crate::app::readiness::{Component, State};
use crate::app::terminal::Paint;
use crate::http::Readyz;

/// The services of a server, in the order in which people learn of them.
const SERVICES: [&str; 6] = ["room", "jobs", "fanout", "ids", "fleet", "http"];

/// All answers of one round.
pub(super) struct Report {
    pub(super) url: String,
    pub(super) version: Option<String>,
    pub(super) readyz: Readyz,
    /// What `/v1/house` said; nothing from an older server, or without its token.
    pub(super) house: Option<Value>,
}

impl Report {
    pub(super) fn is_ready(&self) -> bool {
        self.readyz.state == State::Ready
    }

    /// Returns the report of the server together with the other responses.
    pub(super) fn to_json(&self) -> Value {
        let mut all = self.house.clone().unwrap_or_else(|| json!({}));
        all["url"] = json!(self.url);
        all["version"] = json!(self.version);
        all["state"] = json!(self.readyz.state);
        all["uptime_seconds"] = json!(self.readyz.uptime_seconds);
        all["components"] = json!(self.readyz.components);
        all
    }

    pub(super) fn to_table(&self, paint: Paint) -> String {
        let version = self.version.as_deref();
        let version = version.unwrap_or("not told (the settings need its http.token)");
        let mut text = String::new();
        let head = [
            ("url", self.url.clone()),
            ("version", version.to_owned()),
            ("uptime", duration(self.readyz.uptime_seconds)),
            ("state", painted(self.readyz.state, paint)),
        ];
        let lines = match &self.house {
            Some(house) => self.services(house, paint),
            None => self.components(paint),
        };
        let width = lines.iter().map(|(name, _)| name.chars().count());
        let width = width.chain([7]).max().unwrap_or(0);
        for (name, value) in head {
            writeln!(text, "{name:width$}  {value}").expect("writing to a string cannot fail");
        }
        let title = match self.house {
            Some(_) => paint.bold("services"),
            None => paint.bold("components"),
        };
        writeln!(text, "\n{title}").expect("writing to a string cannot fail");
        for (name, value) in lines {
            writeln!(text, "{name:width$}  {value}").expect("writing to a string cannot fail");
        }
        text
    }

    fn components(&self, paint: Paint) -> Vec<(String, String)> {
        let line = |component: &Component| {
            let state = painted(component.state, paint);
            let value = match &component.detail {
                Some(detail) => format!("{state} ({detail})"),
                None => state,
            };
            (component.name.clone(), value)
        };
        self.readyz.components.iter().map(line).collect()
    }

    /// A line per service: state, where it is, figures; and its own words while it is not well.
    fn services(&self, house: &Value, paint: Paint) -> Vec<(String, String)> {
        let place = |name: &str| house["services"][name]["address"].as_str().unwrap_or_default();
        let width = SERVICES.map(|name| place(name).chars().count()).into_iter().max();
        let width = width.unwrap_or(0);
        let line = |name: &str| {
            let service = &house["services"][name];
            if service.is_null() {
                return (name.to_owned(), paint.dim("off"));
            }
            let state = state_of(service);
            let word = painted(state, paint);
            // Colours have no width; pad what is shown.
            let pad = " ".repeat(8usize.saturating_sub(word_of(state).len()));
            let address = paint.dim(&format!("{:width$}", place(name)));
            let mut figures = services::figures(name, service);
            let detail = service["detail"].as_str();
            if let (true, Some(detail)) = (state != State::Ready || figures.is_empty(), detail) {
                figures = detail.to_owned();
            }
            (name.to_owned(), format!("{word}{pad}  {address}  {figures}"))
        };
        SERVICES.iter().map(|name| line(name)).collect()
    }
}

fn state_of(service: &Value) -> State {
    serde_json::from_value(service["state"].clone()).unwrap_or(State::Failed)
}

fn word_of(state: State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Starting => "starting",
        State::Draining => "draining",
        State::Stopped => "stopped",
        State::Failed => "failed",
    }
}

fn painted(state: State, paint: Paint) -> String {
    let word = word_of(state);
    match state {
        State::Ready => paint.green(word),
        State::Starting | State::Draining | State::Stopped => paint.yellow(word),
        State::Failed => paint.red(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(house: Option<Value>) -> Report {
        let component = |name: &str, detail: Option<&str>| Component {
            name: name.into(),
            state: State::Ready,
            detail: detail.map(str::to_owned),
            restarts: 0,
            condemned: false,
            was_ready: true,
        };
        Report {
            url: "http://127.0.0.1:7400".to_owned(),
            version: Some("1.0.0".to_owned()),
            readyz: Readyz {
                state: State::Ready,
                uptime_seconds: 75,
                components: vec![
                    component("ids", Some("number 3, fence 9")),
                    component("http", None),
                ],
            },
            house,
        }
    }

    #[test]
    fn an_older_house_is_told_by_its_components() {
        let table = report(None).to_table(Paint::plain());
        let expected = "url      http://127.0.0.1:7400\nversion  1.0.0\nuptime   1m 15s\nstate    ready\n\
                        \ncomponents\nids      ready (number 3, fence 9)\nhttp     ready\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn services_have_a_line_each_and_those_that_are_off_say_so() {
        let house = json!({"services": {
            "ids": {"state": "failed", "detail": "no number yet", "address": "127.0.0.1:11212"},
            "http": {"state": "ready", "detail": null, "address": "http://127.0.0.1:7400",
                "requests_per_second": 1.5, "connections": 2},
        }});
        let table = report(Some(house.clone())).to_table(Paint::plain());
        assert!(table.contains("\nservices\nroom     off\n"), "{table}");
        assert!(
            table.contains("\nids      failed    127.0.0.1:11212        no number yet\n"),
            "{table}"
        );
        assert!(
            table.contains("\nhttp     ready     http://127.0.0.1:7400  1.5 requests/s, 2 connections\n"),
            "{table}"
        );
        let json = report(Some(house)).to_json();
        assert_eq!(json["components"][0]["name"], "ids");
        assert_eq!(json["services"]["http"]["connections"], 2);
    }
}
