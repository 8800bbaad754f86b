//! Which crate may use which. An arrow goes to a lower floor only.

use crate::workspace::{Package, packages};
use std::collections::BTreeMap;

/// The floors of ARCHITECTURE.md, from the ground up.
const FLOORS: &[&[&str]] = &[
    &["resp", "config", "clock", "sql", "net", "threads"],
    &[
        "command-spec",
        "store",
        "lua",
        "tiering",
        "wal",
        "process",
        "telemetry",
    ],
    &[
        "connections",
        "reactor",
        "http-kit",
        "redis-client",
        "rdb",
        "postgres-client",
        "sqlite-client",
        "leash",
    ],
    &["keyspace", "migrate", "jobs", "cold", "fleet", "ids", "client"],
    &[
        "exec",
        "jobs-sqlite",
        "jobs-postgres",
        "jobs-api",
        "deliver",
        "fanout",
        "fleet-api",
        "ids-api",
    ],
    &["commands"],
    &["engine", "cluster"],
    &["bench", "console"],
    &["nagaya"],
];

/// Crates that no product code uses.
const DEVELOPMENT: &[&str] = &["testkit", "xtask"];

/// The service that a crate belongs to; crates below all services have none.
const SERVICES: &[(&str, &str)] = &[
    ("engine", "room"),
    ("cluster", "room"),
    ("commands", "room"),
    ("exec", "room"),
    ("keyspace", "room"),
    ("connections", "room"),
    ("command-spec", "room"),
    ("store", "room"),
    ("lua", "room"),
    ("tiering", "room"),
    ("wal", "room"),
    ("cold", "room"),
    ("rdb", "room"),
    ("migrate", "room"),
    ("jobs", "jobs"),
    ("jobs-sqlite", "jobs"),
    ("jobs-postgres", "jobs"),
    ("jobs-api", "jobs"),
    ("deliver", "jobs"),
    ("ids", "ids"),
    ("ids-api", "ids"),
    ("fleet", "fleet"),
    ("fleet-api", "fleet"),
    ("fanout", "fanout"),
];

/// Arrows from one service into another, each with its reason.
const ACROSS_SERVICES: &[(&str, &str)] = &[
    // Request ids are minted from the node's number.
    ("fanout", "ids"),
];

/// Crates that must not name these dependencies: rules without I/O.
const BANS: &[(&[&str], &[&str])] = &[
    (
        &["store", "command-spec", "tiering"],
        &[
            "tokio",
            "rusqlite",
            "tokio-postgres",
            "hyper",
            "rustix",
            "libc",
            "rustls",
        ],
    ),
    (&["jobs"], &["rusqlite", "tokio-postgres", "hyper"]),
    (
        &["connections", "keyspace", "exec", "commands"],
        &["tokio", "hyper", "rusqlite", "tokio-postgres", "rustls"],
    ),
    (&["console"], &["rusqlite", "tokio-postgres"]),
];

fn floor(name: &str) -> usize {
    FLOORS
        .iter()
        .position(|crates| crates.contains(&name))
        .unwrap_or_else(|| panic!("the crate {name} is on no floor: add it to FLOORS and to ARCHITECTURE.md"))
}

fn product() -> BTreeMap<String, Package> {
    let mut packages = packages();
    packages.retain(|name, _| !DEVELOPMENT.contains(&name.as_str()));
    packages
}

#[test]
fn arrows_between_crates_go_to_a_lower_floor() {
    let mut wrong = Vec::new();
    for package in product().values() {
        let from = floor(&package.name);
        for used in &package.uses {
            assert!(
                !DEVELOPMENT.contains(&used.as_str()),
                "{} uses {used} outside of tests",
                package.name
            );
            if floor(used) >= from {
                wrong.push(format!(
                    "{} (floor {from}) -> {used} (floor {})",
                    package.name,
                    floor(used)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these arrows do not go down:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_floor_names_crates_that_exist() {
    let packages = product();
    for name in FLOORS.iter().copied().flatten() {
        assert!(packages.contains_key(*name), "there is no crate {name} any more");
    }
}

#[test]
fn only_the_binaries_name_two_services() {
    let service = |name: &str| {
        SERVICES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, service)| *service)
    };
    let mut across = Vec::new();
    for package in product().values() {
        let Some(own) = service(&package.name) else {
            continue;
        };
        for used in &package.uses {
            if service(used).is_some_and(|other| other != own) {
                across.push((package.name.clone(), used.clone()));
            }
        }
    }
    let expected: Vec<_> = ACROSS_SERVICES
        .iter()
        .map(|(from, to)| (String::from(*from), String::from(*to)))
        .collect();
    assert_eq!(across, expected);
}

#[test]
fn rules_know_no_drivers_and_no_sockets() {
    let packages = product();
    for (names, banned) in BANS {
        for name in *names {
            let foreign = &packages[*name].foreign;
            let found: Vec<_> = foreign
                .iter()
                .filter(|used| banned.contains(&used.as_str()))
                .collect();
            assert!(found.is_empty(), "{name} uses {found:?}");
        }
    }
}

#[test]
fn only_the_binaries_use_anyhow() {
    for package in product().values() {
        if package.foreign.iter().any(|used| used == "anyhow") {
            assert!(
                ["nagaya", "bench"].contains(&package.name.as_str()),
                "{} uses anyhow",
                package.name
            );
        }
    }
}

#[test]
fn the_console_is_a_client_of_the_api() {
    assert_eq!(product()["console"].uses, Vec::<String>::new());
}

/// Text before the tests of a file.
fn product_part(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn threads_of_the_product_end_the_process_when_they_panic() {
    const APART: &[&str] = &["crates/base/threads/", "crates/dev/", "crates/bench/", "clients/"];
    let mut plain = Vec::new();
    for path in crate::source::rust_files() {
        let name = path.to_string_lossy().into_owned();
        let is_test = name.contains("/tests/") || name.contains("/benches/") || name.contains("/examples/");
        if is_test || name.ends_with("tests.rs") || APART.iter().any(|apart| name.starts_with(apart)) {
            continue;
        }
        let text = std::fs::read_to_string(crate::source::root().join(&path)).expect("it was just listed");
        let starts = ["thread::Builder", "thread::spawn("];
        if starts.iter().any(|start| product_part(&text).contains(start)) {
            plain.push(name);
        }
    }
    assert!(
        plain.is_empty(),
        "start threads with `nagaya_threads::spawn`: {plain:#?}"
    );
}
