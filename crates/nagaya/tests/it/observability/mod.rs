//! The metrics page, the dashboard and the alert rules name metrics that a server really exposes.

mod exposition;
mod page;
mod promql;

use super::*;
use exposition::{Families, parse, series};
use nagaya_clock::SystemClock;
use nagaya_cluster::metrics::TiersStats;
use nagaya_telemetry::metrics::Metrics;
use nagaya_testkit::wait;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Not ours: a Prometheus makes it for every target.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

/// All metrics of a server with all services, and of a distributed room.
fn families() -> Families {
    let folder = Folder::new("metrics");
    let source = folder.write("workers.json", r#"[{"id": "cam-1"}]"#);
    let house = house()
        .listener("ids")
        .listener("fanout")
        .args(["--set", "fanout.endpoints=shop=http://127.0.0.1:9/"])
        .args(["--set", "room.max_memory=1gb"])
        .args(["--set", "fleet.app=cams", "--set"])
        .args([format!("fleet.source=file:{}", source.display())])
        .start();
    assert_eq!(house.get("/version").unwrap().status, 200);
    let mut stream = send(house.address("room"), "PING\r\nQUIT\r\n");
    read_all(&mut stream);
    let url = format!("http://{}", house.address("http"));
    let enqueued = run(["jobs", "enqueue", "mail", "1", "--url", &url]);
    assert_eq!(enqueued.code, Some(0), "{}", enqueued.stderr);
    // Both take a moment: queues are counted every two seconds, and a number has to be leased.
    let late = ["nagaya_jobs_waiting{queue=\"mail\"}", "nagaya_ids_worker "];
    let told = wait::value("the queue and the number are told", LIMIT, || {
        let body = house.get("/metrics").ok()?.body;
        late.iter().all(|line| body.contains(line)).then_some(body)
    });

    let metrics = Metrics::new("0", Arc::new(SystemClock));
    metrics.register(TiersStats::default);
    let mut families = parse(&metrics.render().unwrap());
    families.extend(parse(&told));
    families
}

fn names(families: &Families) -> BTreeSet<String> {
    let of_house = families
        .iter()
        .flat_map(|(name, family)| series(name, &family.kind));
    of_house.chain(OF_PROMETHEUS.map(str::to_owned)).collect()
}

#[track_caller]
fn check_expressions(file: &str, expressions: &[String], known: &BTreeSet<String>) {
    assert!(!expressions.is_empty(), "{file} has no expressions");
    for expression in expressions {
        match promql::metrics(expression) {
            Ok(used) => {
                for name in used {
                    assert!(
                        known.contains(&name),
                        "{file}: no server tells `{name}`: {expression}"
                    );
                }
            }
            Err(why) => panic!("{file}: {why}: {expression}"),
        }
    }
}

/// Every value of this key, wherever it stands.
fn values_of(value: &serde_json::Value, key: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == key => found.push(text.to_owned()),
                    _ => values_of(value, key, found),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| values_of(value, key, found)),
        _ => (),
    }
}

/// The expressions of a file of rules, whether on one line or on several after `|`.
fn rule_expressions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(expression) = line.trim().strip_prefix("expr:") else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut expression = expression.trim().trim_start_matches('|').to_owned();
        while let Some(next) = lines.next_if(|next| next.len() - next.trim_start().len() > indent) {
            expression.push(' ');
            expression.push_str(next.trim());
        }
        found.push(expression);
    }
    found
}

#[test]
fn the_page_of_metrics_is_fresh_and_dashboard_and_alerts_name_what_is_there() {
    let families = families();
    let expected = page::render(&families);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(docs("metrics.md"), &expected).unwrap();
    }
    let known = names(&families);
    let dashboard: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(docs("grafana.json")).unwrap()).unwrap();
    let mut expressions = Vec::new();
    values_of(&dashboard, "expr", &mut expressions);
    check_expressions("docs/grafana.json", &expressions, &known);
    let rules = fs::read_to_string(docs("alerts.yml")).unwrap();
    check_expressions("docs/alerts.yml", &rule_expressions(&rules), &known);
    assert!(
        fs::read_to_string(docs("metrics.md")).unwrap_or_default() == expected,
        "docs/metrics.md is stale; run `UPDATE_DOCS=1 cargo test -p nagaya --test it observability` and commit it"
    );
}

#[test]
fn every_alert_says_what_to_do() {
    let rules = fs::read_to_string(docs("alerts.yml")).unwrap();
    let operations = fs::read_to_string(docs("operations.md")).unwrap();
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(!alerts.is_empty());
    for alert in alerts {
        assert!(
            operations.contains(&format!("| `{alert}` |")),
            "docs/operations.md does not say what to do about {alert}"
        );
    }
}

#[test]
fn metrics_that_documents_name_exist() {
    let page = fs::read_to_string(docs("metrics.md")).unwrap();
    for entry in fs::read_dir(docs("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for word in text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
            let is_whole = word.starts_with("nagaya_") && !word.ends_with('_');
            assert!(
                !is_whole || page.contains(word),
                "{}: there is no `{word}`",
                path.display()
            );
        }
    }
}
