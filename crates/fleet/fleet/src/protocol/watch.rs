//! What a manager has seen, and since when. Deaths and settled runs are derived from it.

use std::collections::BTreeMap;

use crate::name::InstanceName;
use crate::store::{FleetSnapshot, InstanceState};
use crate::timing::Timing;
use nagaya_clock::BootTime;

/// An incarnation whose heartbeat did not change for D.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub name: InstanceName,
    pub inc: u64,
    pub beat: u64,
    /// Time since its last heartbeat was first seen.
    pub silent_for: std::time::Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    inc: u64,
    beat: u64,
    /// When the first reply that showed them was received.
    since: BootTime,
}

/// The observations of one manager. They start over with every run of Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watch {
    /// Run and birth, and since when they were seen.
    run: Option<(String, String, BootTime)>,
    seen: BTreeMap<InstanceName, Seen>,
}

impl Watch {
    /// Records a reply.
    pub fn observe(&mut self, snapshot: &FleetSnapshot, received: BootTime) {
        let same =
            |(run, birth, _): &(String, String, BootTime)| *run == snapshot.run && *birth == snapshot.birth;
        if !self.run.as_ref().is_some_and(same) {
            self.run = Some((snapshot.run.clone(), snapshot.birth.clone(), received));
            self.seen.clear();
        }
        self.seen.retain(|name, _| snapshot.instances.contains_key(name));
        for (name, record) in &snapshot.instances {
            if record.state == InstanceState::Dead {
                self.seen.remove(name);
                continue;
            }
            let seen = self.seen.get(name);
            if seen.is_none_or(|seen| (seen.inc, seen.beat) != (record.inc, record.beat)) {
                let seen = Seen {
                    inc: record.inc,
                    beat: record.beat,
                    since: received,
                };
                self.seen.insert(name.clone(), seen);
            }
        }
    }

    /// Returns the instances to declare dead in a request sent at `now`.
    pub fn overdue(&self, now: BootTime, timing: &Timing) -> Vec<Overdue> {
        let overdue = self
            .seen
            .iter()
            .filter(|(_, seen)| now.since(seen.since) >= timing.death);
        overdue
            .map(|(name, seen)| Overdue {
                name: name.clone(),
                inc: seen.inc,
                beat: seen.beat,
                silent_for: now.since(seen.since),
            })
            .collect()
    }

    /// Returns the run to settle, if it was observed for long enough and is not settled yet.
    pub fn to_settle(&self, snapshot: &FleetSnapshot, now: BootTime, timing: &Timing) -> Option<&str> {
        let (run, birth, since) = self.run.as_ref()?;
        let long_enough =
            *run == snapshot.run && *birth == snapshot.birth && now.since(*since) >= timing.quarantine;
        // A store that was never written to has nothing to settle.
        (long_enough && !birth.is_empty() && snapshot.settled != *run).then_some(run.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Capabilities, InstanceRecord};

    fn snapshot(run: &str, beat: u64) -> FleetSnapshot {
        let record = InstanceRecord {
            state: InstanceState::Live,
            inc: 1,
            beat,
            token: "t".into(),
            before: Vec::new(),
            list_version: 1,
            count: 0,
            capabilities: Capabilities::default(),
            since_ms: 0,
        };
        let instances = [(InstanceName::new("a").unwrap(), record)].into();
        FleetSnapshot {
            run: run.into(),
            birth: "1".into(),
            instances,
            ..FleetSnapshot::default()
        }
    }

    #[test]
    fn a_death_needs_the_same_heartbeat_for_the_whole_time_under_one_run() {
        let timing = Timing::default();
        let (start, end) = (
            BootTime::from_millis(10),
            BootTime::from_millis(10) + timing.death,
        );
        let mut watch = Watch::default();
        watch.observe(&snapshot("r", 1), start);
        assert!(
            watch
                .overdue(end - std::time::Duration::from_millis(1), &timing)
                .is_empty()
        );
        assert_eq!(watch.overdue(end, &timing).len(), 1);
        watch.observe(&snapshot("r", 2), end);
        assert!(watch.overdue(end, &timing).is_empty());
        watch.observe(&snapshot("r2", 2), end + timing.death / 2);
        assert!(watch.overdue(end + timing.death, &timing).is_empty());
        assert!(
            watch
                .to_settle(&snapshot("r2", 2), end + timing.death, &timing)
                .is_none()
        );
        assert_eq!(
            watch.to_settle(&snapshot("r2", 2), end + timing.death * 2, &timing),
            Some("r2")
        );
    }
}
