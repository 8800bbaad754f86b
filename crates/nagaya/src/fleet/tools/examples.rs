//! What the long help texts of `nagaya fleet` show.

pub(super) const MANAGER: &str = "\
Examples:
  nagaya fleet manager --redis redis://h --app cams --source file:cams.json
  nagaya fleet manager --app cams --source https://api.example.com/cameras
  nagaya fleet manager --app cams --source 'exec:list-cams --json' --wait-ready
  nagaya fleet manager --app cams --source file:cams.json \\
      --http-listen 127.0.0.1:7410

The list is a JSON array of objects with an id; the rest of an object is the
worker's config. Pages follow by a Link header or as {\"items\": [..], \"next\":
URL}. What is sent as Authorization comes from fleet.source_authorization.

A list that cannot be read whole stops nothing; one that would stop too much
is held until `nagaya fleet confirm`.";

pub(super) const AGENT: &str = "\
Examples:
  nagaya fleet agent --redis redis://h --app cams --exec 'watch-camera {}'
  nagaya fleet agent --app cams --name cams-1 --state-dir /var/lib/cams \\
      --exec 'watch-camera {}' --request 'camera-status {} {key}'
  nagaya fleet agent --app cams --http http://127.0.0.1:8080/workers

A command gets its config on standard input and NAGAYA_WORKER, NAGAYA_EPOCH,
NAGAYA_APP and NAGAYA_INSTANCE in its environment. SIGTERM hands the workers
over to other instances first; a second one ends it at once. Killed with -9,
it takes them along, and they run elsewhere after the printed time.";

pub(super) const LIST: &str = "\
Examples:
  nagaya fleet list --app cams
  nagaya fleet list --redis redis://h --app cams --json";

pub(super) const PLAN: &str = "\
Examples:
  nagaya fleet plan --app cams
  nagaya fleet plan --redis redis://h --app cams --json";

pub(super) const RELOCATE: &str = "\
Examples:
  nagaya fleet relocate cam-17 --app cams           its instance is dead
  nagaya fleet relocate cam-17 --app cams --force   its instance lives
  nagaya fleet relocate --all --app cams
  nagaya fleet relocate --all --policy seed --app cams

A running copy is stopped, and its stop acknowledged, before the next starts.
Exit code 1 with document 000's name for the reason when nothing can be done.";

pub(super) const DRAIN: &str = "\
Examples:
  nagaya fleet drain cams-1 --app cams
  nagaya fleet drain cams-1 --app cams --off";

pub(super) const ASK: &str = "\
Examples:
  nagaya fleet ask temperature --app cams
  nagaya fleet ask temperature --worker cam-17 --app cams --timeout 2s --json

Shows the answers that arrived and who did not answer. Exit code 0 when
everybody answered, else 1.";

pub(super) const EVENTS: &str = "\
Examples:
  nagaya fleet events --app cams
  nagaya fleet events --app cams --follow --json
  nagaya fleet events --app cams --after 1700000000000-0 --count 1000";

pub(super) const CONFIRM: &str = "\
Examples:
  nagaya fleet confirm --app cams
  nagaya fleet confirm --app cams --digest 0a1b2c3d4e5f

Confirms what is held now. A later list that would stop other workers is held
again. Exit code 1 when nothing is held.";

#[cfg(feature = "simulator")]
pub(super) const SIMULATE: &str = "\
Examples:
  nagaya fleet simulate
  nagaya fleet simulate --seeds 100000 --lease 30s --heartbeat 5s
  nagaya fleet simulate --first 4711 --seeds 1
  nagaya fleet simulate --death 2s --unsafe-timing    see it found

Every seed is a world with crashes, freezes, cuts, late messages, drifting
clocks and failovers of Redis. Exit code 1 when a world had two copies of a
worker, or one that never ran again; its faults are shown, as few as suffice.";
