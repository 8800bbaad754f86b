//! LATENCY: when something took long, and how long commands take in general.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, Flags, LOADING, NOSCRIPT, STALE};
use nagaya_command_spec::table::Command;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::{container, help};
use nagaya_exec::latency::Sample;
use nagaya_exec::server::Server;

mod report;

type Reply = Result<(), CommandError>;

const LOOKS: Flags = ADMIN.and(NOSCRIPT).and(LOADING).and(STALE);

pub(crate) const COMMANDS: &[Entry] = &[cmd("LATENCY", -2, container)
    .group("server")
    .since("2.8.13")
    .about("Shows what took long.", "Depends on the subcommand")
    .subcommands(&[
        cmd("DOCTOR", 2, doctor)
            .flags(LOOKS)
            .group("server")
            .since("2.8.13")
            .about("Describes the samples in words.", "O(1)"),
        cmd("GRAPH", 3, graph)
            .flags(LOOKS)
            .group("server")
            .since("2.8.13")
            .about("Draws the samples of an event.", "O(1)"),
        cmd("HELP", 2, help_command)
            .flags(LOADING.and(STALE))
            .group("server")
            .since("2.8.13")
            .about("Lists the subcommands.", "O(1)"),
        cmd("HISTOGRAM", -2, histogram)
            .flags(LOOKS)
            .group("server")
            .since("7.0.0")
            .about("Returns how long calls of commands took.", "O(N) for N commands"),
        cmd("HISTORY", 3, history)
            .flags(LOOKS)
            .group("server")
            .since("2.8.13")
            .about("Returns the samples of an event.", "O(1)"),
        cmd("LATEST", 2, latest)
            .flags(LOOKS)
            .group("server")
            .since("2.8.13")
            .about("Returns the latest sample of every event.", "O(1)"),
        cmd("RESET", -2, reset)
            .flags(LOOKS)
            .group("server")
            .since("2.8.13")
            .about("Forgets the samples of some events or of all.", "O(1)"),
    ])];

/// LATENCY HISTORY event
fn history(ctx: &mut Ctx<'_, '_>) -> Reply {
    let events = ctx.server().latency.events();
    let samples = std::str::from_utf8(ctx.key(2))
        .ok()
        .and_then(|event| events.get(event));
    let Some(samples) = samples else {
        ctx.out.array(0);
        return Ok(());
    };
    ctx.out.array(samples.kept.len());
    for sample in &samples.kept {
        ctx.out.array(2);
        ctx.out.int(sample.at_s);
        ctx.out.int(sample.ms as i64);
    }
    Ok(())
}

/// LATENCY LATEST
fn latest(ctx: &mut Ctx<'_, '_>) -> Reply {
    let events = ctx.server().latency.events();
    ctx.out.array(events.len());
    for (event, samples) in events.iter() {
        let last = samples.kept.back().copied().unwrap_or(Sample { at_s: 0, ms: 0 });
        ctx.out.array(4);
        ctx.out.bulk_str(event);
        ctx.out.int(last.at_s);
        ctx.out.int(last.ms as i64);
        ctx.out.int(samples.worst_ms as i64);
    }
    Ok(())
}

/// LATENCY RESET [event ...]
fn reset(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut events = ctx.server().latency.events();
    let before = events.len();
    let named: Vec<&[u8]> = ctx.args.iter().skip(2).collect();
    events.retain(|event, _| {
        let wanted = named
            .iter()
            .any(|name| event.as_bytes().eq_ignore_ascii_case(name));
        !named.is_empty() && !wanted
    });
    ctx.out.int((before - events.len()) as i64);
    Ok(())
}

/// LATENCY GRAPH event
fn graph(ctx: &mut Ctx<'_, '_>) -> Reply {
    let events = ctx.server().latency.events();
    let name = String::from_utf8_lossy(ctx.key(2));
    let Some((event, samples)) = events.get_key_value(&*name) else {
        return Err(CommandError::err(format!(
            "No samples available for event '{name}'"
        )));
    };
    let text = report::graph(event, samples, ctx.now_us() / 1_000_000);
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// LATENCY DOCTOR
fn doctor(ctx: &mut Ctx<'_, '_>) -> Reply {
    let events = ctx.server().latency.events();
    let text = report::doctor(&events, ctx.config().latency_monitor_threshold);
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// LATENCY HISTOGRAM [command ...]
fn histogram(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut chosen: Vec<&'static Command> = Vec::new();
    if ctx.args.len() == 2 {
        chosen.extend(ctx.table().every());
    }
    for name in ctx.args.iter().skip(2) {
        let (container, sub) = match name.iter().position(|byte| *byte == b'|') {
            Some(bar) => (&name[..bar], Some(&name[bar + 1..])),
            None => (name, None),
        };
        let Some(command) = ctx.table().find(container) else {
            continue;
        };
        match sub {
            Some(sub) => chosen.extend(command.subcommand(sub)),
            None => chosen.extend(std::iter::once(command).chain(&command.subcommands)),
        }
    }
    let mark = ctx.out.defer();
    let mut shown = 0;
    for command in chosen {
        shown += usize::from(write_histogram(ctx.server(), command, ctx.out));
    }
    ctx.out.finish_map(mark, shown);
    Ok(())
}

/// Writes a command's name and its histogram; false when it was not called.
fn write_histogram(server: &Server, command: &Command, out: &mut nagaya_resp::Out) -> bool {
    let durations = server.durations(command.number);
    if durations.count == 0 {
        return false;
    }
    out.bulk_str(&command.full_name);
    out.map(2);
    out.bulk_str("calls");
    out.int(durations.count as i64);
    out.bulk_str("histogram_usec");
    let lines = durations.cumulative_us();
    out.map(lines.len());
    for (bound_us, calls) in lines {
        out.int(bound_us as i64);
        out.int(calls as i64);
    }
    true
}

/// LATENCY HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            ("DOCTOR", &["Describe the samples in words."]),
            ("GRAPH <event>", &["Draw the samples of an event."]),
            ("HISTORY <event>", &["Show the samples of an event."]),
            ("LATEST", &["Show the latest sample of every event."]),
            (
                "RESET [<event> ...]",
                &["Forget the samples of some events (default: of all)."],
            ),
            (
                "HISTOGRAM [<command> ...]",
                &["Show how long calls of commands took (default: of all)."],
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    fn with_samples() -> TestSession {
        let session = TestSession::new();
        let server = &session.engine.server;
        server.update_config(|config| config.latency_monitor_threshold = 20);
        let config = server.config();
        for (at_s, ms) in [(100, 30), (100, 90), (100, 50), (101, 19), (160, 25)] {
            server.latency.note(&config, "command", ms * 1_000_000, at_s);
        }
        session
    }

    #[test]
    fn a_second_keeps_its_worst_sample() {
        let mut session = with_samples();
        session.check(
            "LATENCY HISTORY command",
            "*2\r\n*2\r\n:100\r\n:90\r\n*2\r\n:160\r\n:25\r\n",
        );
        session.check(
            "LATENCY LATEST",
            "*1\r\n*4\r\n$7\r\ncommand\r\n:160\r\n:25\r\n:90\r\n",
        );
        session.check("LATENCY HISTORY other", "*0\r\n");
        session.check("LATENCY RESET other", ":0\r\n");
        session.check("LATENCY RESET", ":1\r\n");
        session.check("LATENCY LATEST", "*0\r\n");
    }

    #[test]
    fn reports_are_for_people() {
        let mut session = with_samples();
        let graph = session.text("LATENCY GRAPH command");
        assert!(
            graph.contains("command - high 90 ms, low 25 ms (all time high 90 ms)"),
            "{graph}"
        );
        assert!(session.text("LATENCY DOCTOR").contains("command"));
        session.check("LATENCY GRAPH x", "-ERR No samples available for event 'x'\r\n");
    }

    #[test]
    fn histograms_count_the_calls_of_a_command_and_its_subcommands() {
        let mut session = TestSession::new();
        session.check("CONFIG RESETSTAT", "+OK\r\n");
        for request in ["SET a b", "SET c d", "CLIENT ID", "CLIENT GETNAME"] {
            session.text(request);
        }
        let set = session.text("LATENCY HISTOGRAM set nosuch");
        assert!(
            set.starts_with("*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n*"),
            "{set}"
        );
        assert!(
            session
                .text("LATENCY HISTOGRAM client")
                .starts_with("*4\r\n$14\r\nclient|getname\r\n")
        );
        assert!(
            session
                .text("LATENCY HISTOGRAM client|id")
                .starts_with("*2\r\n$9\r\nclient|id\r\n")
        );
        assert!(session.text("LATENCY HISTOGRAM").contains("config|resetstat"));
        session.check("LATENCY HISTOGRAM get", "*0\r\n");
    }
}
