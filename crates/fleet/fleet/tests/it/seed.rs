//! Document 000's scripts, rewritten from their description, against `--policy seed` and the single
//! operations here. Intended differences are listed in docs/fleet.md.

use std::collections::BTreeMap;

use nagaya_fleet::commands::{self, Policy, StoreOptions};
use nagaya_fleet::plan::{SeedRules, relocate_all_as_seed};
use nagaya_fleet::store::Store;
use nagaya_testkit::{Redis, shared};

use crate::support::{block_on, install, installs, instance, join, shared_store, whole};

/// Evens the lists out as the document has it: round for round, the longest gives to the shortest.
/// KEYS lists   ARGV[1] 'round' or 'floor' for the average   ARGV[2] rounds at most
/// Returns how many workers were moved.
const ALL_RELOCATE: &str = r"
local sizes, total = {}, 0
for at, key in ipairs(KEYS) do
  sizes[at] = { key = key, at = at, size = redis.call('HLEN', key) }
  total = total + sizes[at].size
end
local average = total / #KEYS
average = ARGV[1] == 'round' and math.floor(average + 0.5) or math.floor(average)
local moved = 0
for _ = 1, tonumber(ARGV[2]) do
  table.sort(sizes, function(a, b)
    if a.size ~= b.size then return a.size > b.size end
    return a.at < b.at
  end)
  local most, least = sizes[1], sizes[#sizes]
  if least.size == average then break end
  local count = math.min(math.floor((most.size - least.size) / 2), average)
  local fields = redis.call('HKEYS', most.key)
  table.sort(fields)
  for at = 1, count do
    redis.call('HSET', least.key, fields[at], redis.call('HGET', most.key, fields[at]))
    redis.call('HDEL', most.key, fields[at])
  end
  most.size, least.size, moved = most.size - count, least.size + count, moved + count
end
return moved
";

/// Chooses the list for a new worker as the document has it.
/// KEYS lists   ARGV[1] worker
const AUTO_CREATE: &str = r"
if #KEYS == 0 then return 'NO_ACCEPTABLE_WORKER' end
local best
for _, key in ipairs(KEYS) do
  if redis.call('HEXISTS', key, ARGV[1]) == 1 then return 'ALREADY_INSTALLED' end
  local size = redis.call('HLEN', key)
  if not best or size < best.size then best = { key = key, size = size } end
end
redis.call('HSET', best.key, ARGV[1], '{}')
return best.key
";

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn eval(redis: &Redis, script: &str, keys: &[String], args: &[&str]) -> nagaya_testkit::Reply {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys.iter().map(String::as_str));
    words.extend(args);
    redis.cmd(&words)
}

/// The document's lists: one hash per instance.
fn write_lists(redis: &Redis, counts: &[usize]) -> Vec<String> {
    redis.cmd(&["FLUSHALL"]);
    let mut next = 0;
    let mut keys = Vec::new();
    for (at, count) in counts.iter().enumerate() {
        let key = format!("workers:i{at:02}");
        for _ in 0..*count {
            redis.cmd(&["HSET", &key, &format!("w{next:04}"), "{}"]);
            next += 1;
        }
        keys.push(key);
    }
    keys
}

fn read_sizes(redis: &Redis, keys: &[String]) -> Vec<usize> {
    let size = |key: &String| usize::try_from(redis.cmd(&["HLEN", key]).int()).unwrap();
    keys.iter().map(size).collect()
}

#[test]
fn p12_evening_out_by_the_seed_policy_ends_as_the_documents_script_does() {
    let redis = Redis::start();
    let mut random = Random(1);
    for round in 0..60 {
        let instances = 1 + random.below(9) as usize;
        let counts: Vec<usize> = (0..instances).map(|_| random.below(25) as usize).collect();
        for (rules, rounding, rounds) in [
            (SeedRules::Document, "round", instances.div_ceil(2)),
            (SeedRules::Code, "floor", instances),
        ] {
            let keys = write_lists(&redis, &counts);
            let moved = eval(&redis, ALL_RELOCATE, &keys, &[rounding, &rounds.to_string()]).int();
            let mut lists: Vec<Vec<u32>> = counts.iter().map(|count| vec![0; *count]).collect();
            let ours = relocate_all_as_seed(&mut lists, rules);
            let sizes: Vec<usize> = lists.iter().map(Vec::len).collect();
            assert_eq!(
                i64::try_from(ours).unwrap(),
                moved,
                "{round}: {counts:?} {rules:?}"
            );
            assert_eq!(sizes, read_sizes(&redis, &keys), "{round}: {counts:?} {rules:?}");
        }
    }
}

/// Counts workers by their next owner, or their owner if no move is pending.
async fn workers_by_next_owner(store: &Store) -> BTreeMap<String, usize> {
    let snapshot = whole(store).await;
    let mut counts: BTreeMap<String, usize> = snapshot
        .instances
        .keys()
        .map(|name| (name.to_string(), 0))
        .collect();
    for place in snapshot.places.unwrap().values() {
        let end = place.next_owner.as_ref().or(place.owner.as_ref()).unwrap();
        *counts.get_mut(end.as_str()).unwrap() += 1;
    }
    counts
}

#[test]
fn p12_the_command_asks_for_the_very_end_that_the_script_reaches() {
    let redis = Redis::start();
    let mut random = Random(2);
    for _ in 0..6 {
        let instances = 2 + random.below(4) as usize;
        let counts: Vec<usize> = (0..instances).map(|_| random.below(12) as usize).collect();
        let keys = write_lists(&redis, &counts);
        let rounds = instances.to_string();
        eval(&redis, ALL_RELOCATE, &keys, &["floor", &rounds]);
        let expected = read_sizes(&redis, &keys);
        let store = shared_store();
        block_on(async {
            store.put(&installs(counts.iter().sum())).await.unwrap();
            let places = whole(&store).await.places.unwrap();
            let mut waiting = places.iter().map(|(worker, place)| (worker.clone(), place.epoch));
            for (at, count) in counts.iter().enumerate() {
                let name = format!("i{at:02}");
                let inc = join(&store, &name, "t").await.inc;
                let own: Vec<_> = waiting.by_ref().take(*count).collect();
                store.assign(&instance(&name), inc, "test", &own).await.unwrap();
            }
            let options = StoreOptions::new(shared::redis().url().parse().unwrap(), store.app().clone());
            commands::relocate_all(options, Policy::Seed(SeedRules::Code))
                .await
                .unwrap();
            let ends: Vec<usize> = workers_by_next_owner(&store).await.into_values().collect();
            assert_eq!(ends, expected, "{counts:?}");
        });
    }
}

#[test]
fn p12_a_new_worker_goes_where_the_documents_script_puts_it_with_its_errors() {
    let redis = Redis::start();
    let store = shared_store();
    let mut random = Random(3);
    block_on(async {
        let keys = write_lists(&redis, &[0, 0, 0, 0]);
        let none = eval(&redis, AUTO_CREATE, &[], &["w"]).text();
        let refused = store.install(&install("w")).await.unwrap_err();
        assert_eq!(refused.code(), Some(none.as_str()));
        for at in 0..keys.len() {
            join(&store, &format!("i{at:02}"), "t").await;
        }
        for _ in 0..40 {
            let id = format!("w{:02}", random.below(30));
            let theirs = eval(&redis, AUTO_CREATE, &keys, &[&id]).text();
            match store.install(&install(&id)).await {
                Ok(name) => assert_eq!(format!("workers:{name}"), theirs),
                Err(error) => assert_eq!(error.code(), Some(theirs.as_str())),
            }
        }
    });
}
