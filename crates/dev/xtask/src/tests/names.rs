//! Names and phrases that the code has given up for the field's own.

use crate::source;
use std::collections::BTreeSet;
use std::path::Path;
use syn::visit::{self, Visit};

const ROOM: &[&str] = &[
    "crates/room/connections",
    "crates/room/keyspace",
    "crates/room/exec",
    "crates/room/commands",
];
const STORE: &[&str] = &["crates/room/store"];
const CLUSTER: &[&str] = &["crates/room/cluster"];
const TIERING: &[&str] = &["crates/room/tiering"];
const JOBS: &[&str] = &["crates/jobs/jobs", "crates/jobs/sqlite", "crates/jobs/postgres"];
const JOBS_API: &[&str] = &["crates/jobs/api", "crates/jobs/deliver"];
const FLEET: &[&str] = &["crates/fleet", "crates/ids"];
const FILES: &[&str] = &["crates/fanout", "crates/room/cold", "crates/room/wal"];
const BINARY: &[&str] = &["crates/nagaya", "crates/bench", "crates/console", "crates/base"];

/// Folders, and the old and new names in them.
type Renamed = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Types and modules that must not be defined again in these folders, with what they are called now.
#[rustfmt::skip]
const RENAMED: &[Renamed] = &[
    (ROOM, &[
        ("Core", "Executor"), ("ClientShared", "Client"), ("Clients", "ClientRegistry"), ("Mark", "ClientFlag"),
        ("GoOn", "Resume"), ("BlockRequest", "BlockingWait"), ("PostponedWork", "DeferredWork"), ("Scope", "LockScope"), ("Slow", "LongScript"), ("Own", "SelfInvalidation"), ("Changes", "PendingInvalidations"),
        ("ShardTiers", "ShardResidency"), ("Question", "ColdQuery"), ("Asked", "NumberedQuery"),
        ("Answer", "ColdAnswer"), ("Stays", "EvictionBlocker"), ("Survey", "TagStatistics"), ("Names", "NameQueue"),
        ("Garbage", "Reclaimable"), ("effect_lost", "record_removal"), ("know", "cache_location"), ("make_room", "free_memory"),
        ("serving", "blocked"), ("need", "residency_check"), ("members", "collection"), ("keyfind", "key_positions"),
    ]),
    (STORE, &[
        ("Marks", "SyncFlags"), ("Edge", "TreeSide"), ("Outline", "SearchArea"), ("Needle", "SearchItem"), ("Keyspace", "KeyTable"),
    ]),
    (CLUSTER, &[
        ("Aim", "Target"), ("Reach", "KeyScope"), ("Rules", "RoutingRules"), ("Trip", "Delivery"), ("Flight", "InFlight"),
        ("Job", "QueuedRequest"), ("Held", "Pending"), ("Hold", "ReadPause"), ("SlotHold", "SlotQueue"), ("Seen", "Handled"),
        ("Trouble", "Redirect"), ("Burst", "Transaction"), ("Join", "Gather"), ("How", "MergeRule"), ("Around", "MergeContext"),
        ("split", "scatter"), ("Gate", "Leases"), ("Step", "TagState"), ("Hub", "Subscriptions"), ("Ears", "ListenerCounts"),
        ("Heard", "ChannelListeners"), ("Book", "ScriptCache"), ("Keeper", "TagAdmin"), ("Errand", "TagCommand"),
        ("ErrandDone", "TagCallback"), ("Room", "TagCommandKind"), ("Greet", "HandshakeStep"), ("Owed", "ReplySlot"),
        ("Told", "LoadCallback"), ("cold_names", "cold_keys"), ("LoadDesk", "LoadPool"), ("TagDesk", "TagService"),
        ("AccessDesk", "AccessLog"), ("ColdKeysDesk", "ColdKeyService"), ("Outlet", "AccessSink"), ("Cleaner", "Evictor"),
        ("facts", "tag_info"), ("ShortRun", "RunDigest"), ("tier", "hot_tier"), ("roles", "workers"),
    ]),
    (TIERING, &[
        ("Rest", "StoredValue"), ("Flights", "LoadCoalescer"), ("Ending", "LoadOutcome"), ("Settled", "SavedKeys"),
        ("Notes", "TokenSightings"), ("Shelf", "TagRows"), ("Shelves", "Tables"), ("Begun", "LoadStart"), ("Wait", "SafetyDelay"),
    ]),
    (JOBS, &[
        ("Books", "WriteTransaction"), ("Card", "JobRow"), ("Spot", "JobPosition"), ("Run", "RunningRow"), ("Told", "AfterCommit"),
        ("Desk", "WriterState or ClaimBroker"), ("Wish", "ClaimDemand"), ("Look", "ScanStart"), ("DEAR_LOOK", "SLOW_SCAN"),
        ("Hint", "ScanHint"), ("Party", "ReadyTenant"), ("Parties", "ReadyTenants"), ("Ears", "NotificationListener"),
        ("Passed", "Throughput"), ("Known", "NameCache"), ("Lane", "Batcher"), ("Rig", "BatchTask"), ("Hub", "Wakeups"),
        ("Place", "WakeupGuard"), ("Tail", "EventReader"), ("Duties", "Maintenance"), ("Beat", "Interval"),
        ("Round", "SweepResult or FairRound"), ("Dice", "TestRng"), ("keyed", "constrained_enqueue"), ("late", "stale_report"),
        ("manage", "operator"), ("fact", "metadata"),
    ]),
    (JOBS_API, &[
        ("Desk", "JobsHandlers"), ("Sort", "ProblemKind"), ("Need", "Permission"), ("Visitor", "Principal"), ("Caller", "Principal"),
        ("Remembered", "CachedToken"), ("Gone", "ClientDisconnected"), ("Hands", "DelivererState"), ("Held", "TargetQueues"),
        ("Letter", "NotificationJob"), ("words", "message_text"), ("slots", "waiters"),
    ]),
    (FLEET, &[
        ("Wish", "TimingOptions"), ("Brake", "MassStopGuard"), ("Demand", "Constraints"), ("Offer", "Capabilities"),
        ("Takers", "FreeCapacity"), ("Proof", "PlanCost"), ("Look", "FleetSnapshot"), ("Loudness", "LogSeverity"),
        ("Act", "AgentAction"), ("eye", "invariants"), ("Hunt", "SeedSearch"), ("small", "exhaustive"), ("machine", "state"),
        ("Filling", "BatchMint"), ("Disorder", "OrderViolation"), ("Family", "process::Group"),
    ]),
    (FILES, &[
        ("Carrying", "RequestTask"), ("Means", "JobContext"), ("Holding", "JobPermits"), ("Turned", "RejectReason"),
        ("complaint", "log_limiter"), ("edges", "deadline_tests"), ("Absence", "MissFilter"), ("Horizon", "TransactionHorizon"),
        ("Sums", "TotalsDelta"), ("Doing", "DiskOperation"), ("Turn", "WriterToken"),
    ]),
    (BINARY, &[
        ("Dialer", "Connector"), ("Meaning", "ErrorClass"), ("Complaint", "InvalidValue"), ("Life", "ReloadPolicy"),
        ("House", "AdminState"), ("RoomDoor", "EngineHandle"), ("RoomPlace", "EngineBackend"), ("Opening", "ReadinessGate"),
        ("Teller", "ProgressLine"), ("Stalling", "WriteTimeout"), ("Contender", "Competitor"), ("admit", "session_guard"),
        ("visit", "request"), ("look", "list"), ("absent", "disabled"),
    ]),
];

/// Methods among the names above; other words may name a method in another sense.
const FUNCTIONS: &[&str] = &["effect_lost", "know", "make_room"];

/// Phrases of a private dialect.
const PHRASES: &[&str] = &[
    "Tells whether",
    "at hand",
    "whoever",
    "Whoever",
    "for want of",
    "so many times",
    "dear look",
    "by and by",
    "redis-kit",
    "postgres-kit",
    "sqlite-kit",
    "Desk",
    "Ears",
    "Errand",
];

#[test]
fn old_names_are_not_defined_again() {
    let mut found = Vec::new();
    for (folders, names) in RENAMED {
        for path in source::rust_files() {
            let is_test = path
                .components()
                .any(|part| ["tests", "suite"].iter().any(|name| part.as_os_str() == *name));
            if is_test || !folders.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            let defined = definitions(&path);
            for (old, new) in *names {
                if defined.contains(*old) {
                    found.push(format!("{}: {old} is called {new}", path.display()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn code_and_docs_speak_the_words_of_the_field() {
    let root = source::root();
    let mut paths = source::rust_files();
    for path in source::files(&root, "md") {
        paths.push(
            path.strip_prefix(&root)
                .expect("it was found below the root")
                .to_owned(),
        );
    }
    paths.retain(|path| !path.starts_with("crates/dev/xtask") && !path.starts_with("bench/runs"));
    let mut found = Vec::new();
    for path in paths {
        for (number, line) in source::read(&path).lines().enumerate() {
            if let Some(phrase) = PHRASES.iter().find(|phrase| has_words(line, phrase)) {
                found.push(format!("{}:{}: {phrase}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

/// Returns whether the line has the phrase, not as part of longer words.
fn has_words(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        [before, after]
            .into_iter()
            .flatten()
            .all(|next| !next.is_alphanumeric() && next != '_')
    })
}

/// Returns the names of the types, traits, constants and modules that a file defines, and its own; of functions
/// only those that were renamed themselves.
fn definitions(path: &Path) -> BTreeSet<String> {
    let mut names = Names::default();
    names.visit_file(&source::parse(path));
    let own = match path.file_stem().map(|stem| stem.to_string_lossy().into_owned()) {
        Some(stem) if stem == "mod" => path
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned()),
        stem => stem,
    };
    names.0.extend(own);
    names.0
}

#[derive(Default)]
struct Names(BTreeSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Mod(item) => Some(&item.ident),
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if FUNCTIONS.iter().any(|name| item.sig.ident == name) {
            self.0.insert(item.sig.ident.to_string());
        }
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if variant.ident == "GoOn" {
            self.0.insert(variant.ident.to_string());
        }
        visit::visit_variant(self, variant);
    }
}
