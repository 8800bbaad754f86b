//! The model's short copy of the scripts against the scripts themselves.

use nagaya_ids::pool::{Phase, Refusal};
use nagaya_testkit::{RespClient, shared};
use proptest::prelude::*;

use crate::model::store::{Caller, Store};

const PRELUDE: &str = include_str!("../../src/pool/lua/prelude.lua");
const GET: &str = include_str!("../../src/pool/lua/get.lua");
const EXTEND: &str = include_str!("../../src/pool/lua/extend.lua");
const RELEASE: &str = include_str!("../../src/pool/lua/release.lua");

/// What one of a few callers does, under one of a few runs.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Get {
        proof: u8,
    },
    /// With the fence of the grant this many grants ago.
    Extend {
        ago: usize,
        phase: Phase,
        seen_run: u8,
    },
    Release {
        ago: usize,
        exact: bool,
    },
}

fn deed() -> impl Strategy<Value = (u8, u8, Deed)> {
    let phase = prop_oneof![
        Just(Phase::Waiting),
        Just(Phase::DelayOver),
        Just(Phase::InUse),
        Just(Phase::Lapsed)
    ];
    let deed = prop_oneof![
        (0_u8..7).prop_map(|proof| Deed::Get { proof }),
        (0_usize..2, phase, 1_u8..3).prop_map(|(ago, phase, seen_run)| Deed::Extend { ago, phase, seen_run }),
        (0_usize..2, any::<bool>()).prop_map(|(ago, exact)| Deed::Release { ago, exact }),
    ];
    (1_u8..7, 1_u8..3, deed)
}

struct Real {
    client: RespClient,
}

impl Real {
    fn eval(&mut self, script: &str, keys: &[&str], args: &[&str]) -> Vec<String> {
        let source = format!("{PRELUDE}{script}");
        let count = keys.len().to_string();
        let mut request = vec!["EVAL", &source, &count];
        request.extend(keys);
        request.extend(args);
        let reply = self.client.cmd(&request).unwrap();
        assert!(reply.error().is_none(), "{reply:?}");
        reply
            .items()
            .iter()
            .map(|item| match item {
                nagaya_testkit::Reply::Int(value) => value.to_string(),
                other => other.text(),
            })
            .collect()
    }
}

/// Tokens 1 and 2 are processes of the first name, 3 and 4 of the second, and so on.
fn caller(token: u8, proof: u8) -> Caller {
    Caller {
        name: token.div_ceil(2),
        token,
        proof,
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::DelayOver => "delay_over",
        Phase::InUse => "in_use",
        Phase::Lapsed => "lapsed",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_models_scripts_answer_as_the_real_ones(deeds in prop::collection::vec(deed(), 1..30)) {
        let mut real = Real { client: shared::redis().client() };
        let space = format!("{{equal-{}}}", rand_name());
        let [ids, clients, stats, leases] = ["ids", "clients", "stats", "leases"].map(|key| format!("{space}:{key}"));
        real.client.cmd(&["ZADD", &ids, "0", "A1"]).unwrap();
        let mut model = Store::of(1);
        // Fences of the grants so far: the model's and the real ones.
        let mut fences: Vec<(u32, String)> = vec![(0, "0".into())];
        for (token, run, deed) in deeds {
            let (id, run_text) = (token.to_string(), run.to_string());
            let name = token.div_ceil(2).to_string();
            let (fence, real_fence) = match deed {
                Deed::Get { .. } => fences[0].clone(),
                Deed::Extend { ago, .. } | Deed::Release { ago, .. } => fences[fences.len().saturating_sub(ago + 1)].clone(),
            };
            match deed {
                Deed::Get { proof } => {
                    let proof_text = if proof == 0 { String::new() } else { proof.to_string() };
                    let highest = fences.iter().map(|(fence, _)| *fence).max().unwrap();
                    let given = model.get(caller(token, proof), run, highest + 1, 0, false);
                    // An empty reservation: the next client may take the number.
                    let args = [&id, &name, &id, &run_text, "0", "0", &proof_text, "0", "0", "0", "5000"];
                    let answer = real.eval(GET, &[&ids, &clients, &stats, &leases], &args);
                    prop_assert_eq!(&answer[0], "granted");
                    prop_assert_eq!(answer[4] == "1", given.at_once, "{:?}", answer);
                    let before: u64 = fences.last().unwrap().1.parse().unwrap();
                    prop_assert!(answer[2].parse::<u64>().unwrap() > before);
                    fences.push((given.fence, answer[2].clone()));
                }
                Deed::Extend { phase, seen_run, .. } => {
                    let seen_text = seen_run.to_string();
                    let expected = match model.extend(caller(token, 0), run, seen_run, (0, fence), phase) {
                        Ok(changed) => vec!["extended".into(), u8::from(changed).to_string()],
                        Err(Refusal::RunChanged) => vec!["refused".to_owned(), "run".into()],
                        Err(_) => vec!["refused".into(), "robbed".into()],
                    };
                    let args = ["A1", &id, &id, &real_fence, &run_text, &seen_text, "0", "0", word(phase), "0", "5000"];
                    let answer = real.eval(EXTEND, &[&ids, &clients, &stats, &leases], &args);
                    prop_assert_eq!(&answer[..2], &expected[..], "{:?}", answer);
                }
                Deed::Release { exact, .. } => {
                    model.release(caller(token, 0), run, (0, fence), exact);
                    let exact = if exact { "1" } else { "0" };
                    let args = ["A1", &id, &id, &real_fence, &run_text, "0", "0", exact];
                    real.eval(RELEASE, &[&ids, &clients, &leases], &args);
                }
            }
            let record = &model.records[0];
            let mut stored = |field: &str| real.client.cmd(&["HGET", &leases, &format!("A1.{field}")]).unwrap();
            if record.name != 0 {
                prop_assert_eq!(stored("open").text() == "1", record.open);
                prop_assert_eq!(stored("run").text(), record.run.to_string());
                prop_assert_eq!(stored("name").text(), record.name.to_string());
                let token = if record.token == 0 { String::new() } else { record.token.to_string() };
                prop_assert_eq!(stored("token").text(), token);
            }
        }
    }
}

/// A namespace that no other case has.
fn rand_name() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
