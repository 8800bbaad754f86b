//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR.
//!
//! Their table entries stand with the rest of CLIENT.

use std::collections::BTreeSet;
use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_connections::tracking::Tracker;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::session::tracking::{ClientTracking, Mode};
use nagaya_exec::tracking::disable;

type Reply = Result<(), CommandError>;

/// What a client asked for.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    broadcast: bool,
    optin: bool,
    optout: bool,
    noloop: bool,
    prefixes: Vec<&'a [u8]>,
}

/// CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
pub(crate) fn client_tracking(ctx: &mut Ctx<'_, '_>) -> Reply {
    let options = read_options(ctx)?;
    if ctx.is(2, "ON") {
        check_modes(ctx, &options)?;
        if options.broadcast {
            check_prefixes(ctx, &options.prefixes)?;
        }
        enable(ctx, &options);
    } else if ctx.is(2, "OFF") {
        disable(&ctx.server().subscribers.tracking, ctx.session);
    } else {
        return Err(CommandError::Syntax);
    }
    ctx.out.ok();
    Ok(())
}

fn read_options<'c>(ctx: &Ctx<'c, '_>) -> Result<Options<'c>, CommandError> {
    let mut options = Options::default();
    let mut at = 3;
    while at < ctx.args.len() {
        let more = at + 1 < ctx.args.len();
        if ctx.is(at, "REDIRECT") && more {
            at += 1;
            if options.redirect != 0 {
                return Err(CommandError::err(
                    "A client can only redirect to a single other client",
                ));
            }
            let id = u64::try_from(ctx.int(at)?).unwrap_or(0);
            if ctx.server().subscribers.clients.find(id).is_none() {
                return Err(CommandError::err(
                    "The client ID you want redirect to does not exist",
                ));
            }
            options.redirect = id;
        } else if ctx.is(at, "BCAST") {
            options.broadcast = true;
        } else if ctx.is(at, "OPTIN") {
            options.optin = true;
        } else if ctx.is(at, "OPTOUT") {
            options.optout = true;
        } else if ctx.is(at, "NOLOOP") {
            options.noloop = true;
        } else if ctx.is(at, "PREFIX") && more {
            at += 1;
            options.prefixes.push(ctx.key(at));
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// Refuses options that contradict each other or how the client tracks already.
fn check_modes(ctx: &Ctx<'_, '_>, options: &Options<'_>) -> Reply {
    let mode = ctx.session.tracking.as_ref().map(|tracking| tracking.mode);
    let refusal = if !options.broadcast && !options.prefixes.is_empty() {
        "PREFIX option requires BCAST mode to be enabled"
    } else if mode.is_some_and(|mode| (mode == Mode::Broadcast) != options.broadcast) {
        "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
    } else if options.broadcast && (options.optin || options.optout) {
        "OPTIN and OPTOUT are not compatible with BCAST"
    } else if options.optin && options.optout {
        "You can't specify both OPTIN mode and OPTOUT mode"
    } else if (options.optin && mode == Some(Mode::OptOut)) || (options.optout && mode == Some(Mode::OptIn)) {
        "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
    } else {
        return Ok(());
    };
    Err(CommandError::err(refusal))
}

/// Refuses prefixes under which one change would be told twice.
fn check_prefixes(ctx: &Ctx<'_, '_>, prefixes: &[&[u8]]) -> Reply {
    let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refuse = |prefix: &[u8], relation: &str, other: &[u8]| {
        let (prefix, other) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(other));
        Err(CommandError::err(format!(
            "Prefix '{prefix}' overlaps with {relation} prefix '{other}'. Prefixes for a single client must not overlap."
        )))
    };
    for (at, prefix) in prefixes.iter().enumerate() {
        let mut existing = ctx
            .session
            .tracking
            .iter()
            .flat_map(|tracking| &tracking.prefixes);
        if let Some(other) = existing.find(|other| overlaps(other, prefix)) {
            return refuse(prefix, "an existing", other);
        }
        if let Some(other) = prefixes[at + 1..].iter().find(|other| overlaps(other, prefix)) {
            return refuse(prefix, "another provided", other);
        }
    }
    Ok(())
}

fn enable(ctx: &mut Ctx<'_, '_>, options: &Options<'_>) {
    let shared = &ctx.server().subscribers.tracking;
    let tracking = ctx.session.tracking.get_or_insert_with(|| {
        Box::new(ClientTracking {
            tracker: Arc::new(Tracker::new(Arc::clone(&ctx.session.shared))),
            mode: Mode::Every,
            caching: false,
            prefixes: BTreeSet::new(),
            script_reads: None,
        })
    });
    tracking.mode = match options {
        Options { broadcast: true, .. } => Mode::Broadcast,
        Options { optin: true, .. } => Mode::OptIn,
        Options { optout: true, .. } => Mode::OptOut,
        _ => Mode::Every,
    };
    let tracker = &tracking.tracker;
    tracker.switch_on(options.broadcast, options.noloop, options.redirect);
    shared.enroll(tracker);
    if options.broadcast {
        let everything: &[&[u8]] = &[b""];
        let prefixes = if options.prefixes.is_empty() {
            everything
        } else {
            &options.prefixes
        };
        for prefix in prefixes {
            shared.add_prefix(prefix, tracker);
            tracking.prefixes.insert(prefix.to_vec());
        }
    }
}

/// CLIENT CACHING YES | NO
pub(crate) fn client_caching(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (yes, no) = (ctx.is(2, "YES"), ctx.is(2, "NO"));
    let Some(tracking) = &mut ctx.session.tracking else {
        return Err(CommandError::err(
            "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match (tracking.mode, yes, no) {
        (Mode::OptIn, true, _) | (Mode::OptOut, _, true) => tracking.caching = true,
        (_, true, _) => {
            return Err(CommandError::err(
                "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        (_, _, true) => {
            return Err(CommandError::err(
                "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        _ => return Err(CommandError::Syntax),
    }
    ctx.out.ok();
    Ok(())
}

/// CLIENT GETREDIR
pub(crate) fn client_getredir(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(redirect(ctx));
    Ok(())
}

/// CLIENT TRACKINGINFO
pub(crate) fn client_trackinginfo(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut flags = Vec::new();
    match &ctx.session.tracking {
        None => flags.push("off"),
        Some(tracking) => {
            flags.push("on");
            match (tracking.mode, tracking.caching) {
                (Mode::Every, _) => (),
                (Mode::Broadcast, _) => flags.push("bcast"),
                (Mode::OptIn, false) => flags.push("optin"),
                (Mode::OptIn, true) => flags.extend(["optin", "caching-yes"]),
                (Mode::OptOut, false) => flags.push("optout"),
                (Mode::OptOut, true) => flags.extend(["optout", "caching-no"]),
            }
            if tracking.tracker.is_noloop() {
                flags.push("noloop");
            }
            if tracking.tracker.is_broken() {
                flags.push("broken_redirect");
            }
        }
    }
    ctx.out.map(3);
    ctx.out.bulk_str("flags");
    ctx.out.set(flags.len());
    flags.iter().for_each(|flag| ctx.out.bulk_str(flag));
    ctx.out.bulk_str("redirect");
    ctx.out.int(redirect(ctx));
    ctx.out.bulk_str("prefixes");
    match &ctx.session.tracking {
        None => ctx.out.array(0),
        Some(tracking) => {
            ctx.out.array(tracking.prefixes.len());
            tracking.prefixes.iter().for_each(|prefix| ctx.out.bulk(prefix));
        }
    }
    Ok(())
}

/// Returns the client that gets the messages: 0 when none is named, -1 when there is no tracking.
fn redirect(ctx: &Ctx<'_, '_>) -> i64 {
    let tracking = ctx.session.tracking.as_ref();
    tracking.map_or(-1, |tracking| tracking.tracker.redirect() as i64)
}
