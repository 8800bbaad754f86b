//! Sends every command to a running server as each of some users, and compares the answers with the committed
//! ones.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nagaya_command_spec::spec::{Begin, Find, TagSpec};
use nagaya_resp::{ArgVec, encode_request};

use crate::rights::{self, Verdict, Who};
use crate::table::{self, Command};

/// The key that requests name, in the tag that the users' rules are about.
const KEY: &str = "{user:1}key";

/// The password of `default` on the server that is walked over.
pub const PASSWORD: &str = "the-password-of-default";

/// Longer than any of the requests takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Requests that cannot be told from arity and key specs, or that would do harm.
const CHOSEN: &[(&str, &str)] = &[
    ("auth", "AUTH nosuch wrong"),
    ("shutdown", "SHUTDOWN ABORT"),
    ("xread", "XREAD STREAMS {user:1}key 0"),
    ("xreadgroup", "XREADGROUP GROUP g c STREAMS {user:1}key >"),
    ("migrate", "MIGRATE 127.0.0.1 1 {user:1}key 0 1"),
    ("room.tags", "ROOM.TAGS PREFIX user:1"),
    ("debug", "DEBUG HELP"),
];

/// Lists the commands that a request can name: containers only through their subcommands.
pub fn commands() -> impl Iterator<Item = &'static Command> {
    table::every().filter(|command| command.subcommands.is_empty())
}

/// Returns a request of a command, with its keys in place and otherwise arguments that lead nowhere.
pub fn request(command: &Command) -> ArgVec {
    if let Some((_, chosen)) = CHOSEN.iter().find(|(name, _)| *name == command.full_name) {
        return chosen.split(' ').collect();
    }
    let mut words: Vec<String> = command
        .full_name
        .to_ascii_uppercase()
        .split('|')
        .map(str::to_owned)
        .collect();
    let mut put = |at: usize, word: &str| {
        while words.len() <= at {
            words.push("x".to_owned());
        }
        word.clone_into(&mut words[at]);
    };
    let least = command.spec.arity.unsigned_abs() as usize;
    if let Some(TagSpec::Named { at, .. }) = command.spec.tags {
        put(at, KEY);
    }
    for spec in command.spec.keys {
        let Begin::Index(first) = spec.begin else {
            continue;
        };
        match spec.find {
            Find::Range { last, step, .. } => {
                let last = first + usize::try_from(last).unwrap_or(0);
                (first..=last).step_by(step.max(1)).for_each(|at| put(at, KEY));
            }
            Find::KeyNum {
                count_at,
                first: offset,
                ..
            } => {
                put(first + count_at, "1");
                put(first + offset, KEY);
            }
            Find::Unknown => {}
        }
    }
    while words.len() < least {
        words.push("x".to_owned());
    }
    words.iter().map(String::as_str).collect()
}

/// Walks over all commands and users; returns how many answers there were of each kind, and panics with a
/// list of those that are wrong.
///
/// The server's user `default` has the password [`PASSWORD`], and nobody else uses the server.
///
/// `level` is the version up to which the server, or the one behind it, has to know every command.
pub fn walk(address: SocketAddr, level: (u32, u32)) -> BTreeMap<(&'static str, &'static str), usize> {
    let mut admin = Connection::open(address);
    assert_eq!(admin.ask(&["AUTH", PASSWORD]), Some("+OK".to_owned()));
    for who in Who::ALL {
        make(&mut admin, who);
    }
    let committed: BTreeMap<String, _> = rights::rows()
        .into_iter()
        .map(|row| (row.command, row.answers))
        .collect();
    let (mut tally, mut wrong) = (BTreeMap::new(), Vec::new());
    for command in commands() {
        let Some(expected) = committed.get(&command.full_name) else {
            wrong.push(format!("{}: no answers are committed for it", command.full_name));
            continue;
        };
        for (who, expected) in Who::ALL.into_iter().zip(expected) {
            let (answer, reply) = try_one(address, &mut admin, (command, who), level);
            if answer != *expected {
                let shown: String = reply.chars().take(120).collect();
                wrong.push(format!(
                    "{} as `{}`: {answer:?} instead of {expected:?}: {shown}",
                    command.full_name,
                    who.name()
                ));
            }
            *tally.entry((who.name(), answer.name())).or_insert(0) += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong answers:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    tally
}

fn version(since: &str) -> (u32, u32) {
    let mut numbers = since.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn user(who: Who) -> String {
    format!("walker-{who:?}").to_ascii_lowercase()
}

fn make(admin: &mut Connection, who: Who) {
    let Some(rules) = who.rules() else {
        return;
    };
    let name = user(who);
    let mut words = vec!["ACL", "SETUSER", &name, "reset", "on", ">pw"];
    words.extend(rules.split(' '));
    assert_eq!(admin.ask(&words), Some("+OK".to_owned()), "{words:?}");
}

/// Sends a command on a connection of its own.
fn try_one(
    address: SocketAddr,
    admin: &mut Connection,
    (command, who): (&Command, Who),
    level: (u32, u32),
) -> (Verdict, String) {
    if who == Who::Deleted {
        make(admin, who);
    }
    let mut connection = Connection::open(address);
    match who {
        Who::Nobody => {}
        Who::WrongPassword => {
            let refused = connection.ask(&["AUTH", "default", "wrong"]);
            assert!(refused.is_some_and(|reply| reply.starts_with("-WRONGPASS")));
        }
        who => assert_eq!(
            connection.ask(&["AUTH", &user(who), "pw"]),
            Some("+OK".to_owned())
        ),
    }
    if who == Who::Deleted {
        assert_eq!(admin.ask(&["ACL", "DELUSER", &user(who)]), Some(":1".to_owned()));
    }
    let request = request(command);
    let args = request.as_args();
    let words: Vec<&[u8]> = args.iter().collect();
    let Some(reply) = connection.ask(&words) else {
        return (Verdict::Ended, String::new());
    };
    let is_known = !reply.starts_with("-ERR unknown command") || version(command.spec.since) > level;
    let is_valid = !reply.contains("wrong number of arguments") && is_known;
    assert!(is_valid, "a request that no server takes: {words:?}: {reply}");
    match Verdict::of(reply.as_bytes()) {
        Verdict::NoAuth if who == Who::Deleted => (Verdict::Ended, reply),
        answer => (answer, reply),
    }
}

struct Connection(TcpStream);

impl Connection {
    fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).expect("the server takes connections");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        stream.set_nodelay(true).expect("a socket can be told so");
        Connection(stream)
    }

    /// Sends a request and returns the first line of its reply; nothing when the connection has ended.
    fn ask<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Option<String> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let mut bytes = Vec::new();
        encode_request(&words, &mut bytes);
        let gone = |kind| {
            matches!(
                kind,
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
            )
        };
        match self.0.write_all(&bytes) {
            Err(error) if gone(error.kind()) => return None,
            sent => sent.expect("a request is sent"),
        }
        let (mut line, mut chunk) = (Vec::new(), [0; 4096]);
        while !line.contains(&b'\n') {
            match self.0.read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => line.extend_from_slice(&chunk[..read]),
                Err(error) if gone(error.kind()) => return None,
                Err(error) => panic!("no reply to {:?}: {error}", String::from_utf8_lossy(&bytes)),
            }
        }
        let end = line.iter().position(|&byte| byte == b'\r').unwrap_or(line.len());
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}
