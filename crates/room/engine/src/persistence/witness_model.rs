//! A search through kills, reboots, copies and restored folders: an identity is never kept over the loss of a record
//! that was acknowledged under it. The decision is the real [`Claim`]'s; each guard taken out is found to be missed.

use std::collections::{HashSet, VecDeque};

use super::Claim;

/// What is modelled, and how often it may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rules {
    records: u8,
    starts: u8,
    reboots: u8,
    copies: u8,
    restores: u8,
    /// The witness survives a reboot in some earlier state, as on a disk.
    on_disk: bool,
    /// Guards.
    compares_boot: bool,
    compares_identity: bool,
    compares_file: bool,
    compares_position: bool,
    witness_first: bool,
    /// The witness is a part of the folder.
    in_folder: bool,
}

const WHOLE: Rules = Rules {
    records: 2,
    starts: 4,
    reboots: 1,
    copies: 1,
    restores: 2,
    on_disk: false,
    compares_boot: true,
    compares_identity: true,
    compares_file: true,
    compares_position: true,
    witness_first: true,
    in_folder: false,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Folder {
    identity: u8,
    /// The file of the identity: another one after a restore.
    file: u8,
    log: u8,
    /// The part of the log that survives a reboot.
    synced: u8,
    witness: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    boot: u8,
    file: u8,
    identity: u8,
    position: u8,
}

impl Seen {
    fn claim(self, rules: &Rules) -> Claim {
        let kept = |value: u8, compares: bool| if compares { value } else { 0 };
        Claim {
            boot: format!("boot {}", kept(self.boot, rules.compares_boot)),
            file: (0, kept(self.file, rules.compares_file).into()),
            identity: kept(self.identity, rules.compares_identity).to_string(),
            position: kept(self.position, rules.compares_position).into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    rules: Rules,
    boot: u8,
    next_identity: u8,
    next_file: u8,
    folder: Folder,
    copy: Option<Folder>,
    witness: Option<Seen>,
    /// An earlier state of a witness on a disk.
    older_witness: Option<Seen>,
    runs: bool,
    /// The highest position acknowledged under each identity.
    acknowledged: [u8; 8],
}

impl World {
    fn new(rules: Rules) -> World {
        let folder = Folder {
            identity: 0,
            file: 0,
            log: 0,
            synced: 0,
            witness: None,
        };
        World {
            rules,
            boot: 1,
            next_identity: 1,
            next_file: 1,
            folder,
            copy: None,
            witness: None,
            older_witness: None,
            runs: false,
            acknowledged: [0; 8],
        }
    }

    fn witness(&mut self) -> &mut Option<Seen> {
        if self.rules.in_folder {
            &mut self.folder.witness
        } else {
            &mut self.witness
        }
    }

    fn witnessed(&mut self) {
        let seen = Seen {
            boot: self.boot,
            file: self.folder.file,
            identity: self.folder.identity,
            position: self.folder.log,
        };
        if self.rules.on_disk && self.older_witness.is_none() {
            self.older_witness = *self.witness();
        }
        *self.witness() = Some(seen);
    }

    fn started(&self) -> Option<Result<World, String>> {
        if self.runs || self.rules.starts == 0 {
            return None;
        }
        let mut world = self.clone();
        world.rules.starts -= 1;
        world.runs = true;
        let found = Seen {
            boot: self.boot,
            file: self.folder.file,
            identity: self.folder.identity,
            position: self.folder.log,
        };
        let rules = self.rules;
        let proves = |seen: Seen| seen.claim(&rules).is_met_by(&found.claim(&rules));
        let is_kept = world.witness().is_some_and(proves);
        if !is_kept {
            world.folder.identity = world.next_identity;
            world.folder.file = world.next_file;
            world.next_identity += 1;
            world.next_file += 1;
        } else if world.folder.log < world.acknowledged[usize::from(world.folder.identity)] {
            return Some(Err(
                "an identity was kept, and an acknowledged record is missing".into()
            ));
        }
        world.witnessed();
        Some(Ok(world))
    }

    fn successors(&self) -> Vec<Result<World, String>> {
        let mut found: Vec<_> = self.started().into_iter().collect();
        let mut add = |condition: bool, change: &dyn Fn(&mut World)| {
            if condition {
                let mut world = self.clone();
                change(&mut world);
                found.push(Ok(world));
            }
        };
        let is_witnessed = self
            .clone()
            .witness()
            .is_some_and(|seen| seen.position == self.folder.log);
        let identity = usize::from(self.folder.identity);
        let may_answer = is_witnessed || !self.rules.witness_first;
        add(self.runs && self.rules.records > 0, &|world| {
            world.rules.records -= 1;
            world.folder.log += 1;
        });
        add(self.runs && !is_witnessed, &World::witnessed);
        add(self.runs && may_answer, &|world| {
            world.acknowledged[identity] = world.folder.log
        });
        add(self.runs, &|world| world.runs = false);
        add(self.folder.synced < self.folder.log, &|world| {
            world.folder.synced = world.folder.log
        });
        add(self.rules.reboots > 0, &|world| {
            world.rules.reboots -= 1;
            world.runs = false;
            world.boot += 1;
            world.folder.log = world.folder.synced;
            world.witness = world.older_witness.filter(|_| world.rules.on_disk);
        });
        // The process's own death loses what it had not handed over, not what the system has.
        add(self.rules.copies > 0, &|world| {
            world.rules.copies -= 1;
            world.copy = Some(world.folder.clone());
        });
        add(
            !self.runs && self.rules.restores > 0 && self.copy.is_some(),
            &|world| {
                world.rules.restores -= 1;
                if let Some(copy) = world.copy.clone() {
                    // A new file; the file system may give it any number, the old one's as well.
                    world.folder = copy;
                }
            },
        );
        found
    }
}

fn search(rules: Rules) -> Result<usize, (String, u32)> {
    let start = World::new(rules);
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((world, depth)) = queue.pop_front() {
        for outcome in world.successors() {
            let next = outcome.map_err(|violation| (violation, depth + 1))?;
            if seen.insert(next.clone()) {
                queue.push_back((next, depth + 1));
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_identity_is_kept_over_a_lost_record() {
    let in_memory = search(WHOLE).unwrap();
    let on_disk = search(Rules {
        on_disk: true,
        ..WHOLE
    })
    .unwrap();
    eprintln!("witness in memory: {in_memory} states; on a disk: {on_disk} states; complete");
}

#[test]
fn the_search_finds_what_a_missing_guard_lets_through() {
    for (what, rules) in [
        (
            "a witness in the folder",
            Rules {
                in_folder: true,
                ..WHOLE
            },
        ),
        (
            "an answer before the witness",
            Rules {
                witness_first: false,
                ..WHOLE
            },
        ),
        (
            "a position that is not compared",
            Rules {
                compares_position: false,
                ..WHOLE
            },
        ),
        (
            "a witness on a disk without the boot",
            Rules {
                on_disk: true,
                compares_boot: false,
                ..WHOLE
            },
        ),
    ] {
        let (violation, steps) = search(rules).expect_err(what);
        eprintln!("{what}: {violation}, {steps} steps");
    }
}
