//! Which connections CLIENT KILL and CLIENT LIST mean.
//!
//! Every option narrows the choice; one of the options with `NOT-` before its
//! name leaves out those that it describes.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::client::Client;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::parse_i64;

use super::list::{ClientType, flags_of};

/// The connections that fit everything asked for.
#[derive(Default)]
pub(super) struct Filter<'a> {
    conditions: Vec<Condition<'a>>,
    pub(super) spare_me: bool,
}

/// One option, which a connection must or must not fit.
struct Condition<'a> {
    wanted: bool,
    about: About<'a>,
}

enum About<'a> {
    Ids(Vec<u64>),
    Type(ClientType),
    User(&'a [u8]),
    Peer(&'a [u8]),
    PeerHost(&'a [u8]),
    Local(&'a [u8]),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Flags(&'a [u8]),
    /// It has been connected for at least this many seconds.
    AgeSeconds(i64),
    /// It has sent nothing for at least this many seconds.
    IdleSeconds(i64),
    Database(i64),
}

impl<'a> Filter<'a> {
    /// Chooses by the address of the other end alone.
    pub(super) fn by_address(peer: &'a [u8]) -> Filter<'a> {
        Filter {
            conditions: vec![Condition {
                wanted: true,
                about: About::Peer(peer),
            }],
            spare_me: false,
        }
    }

    /// Reads options from the third argument on.
    pub(super) fn parse(ctx: &Ctx<'a, '_>, spare_me: bool) -> Result<Filter<'a>, CommandError> {
        let mut filter = Filter {
            conditions: Vec::new(),
            spare_me,
        };
        let mut at = 2;
        while at < ctx.args.len() {
            let word = ctx.key(at).to_ascii_uppercase();
            let value = ctx.arg(at + 1)?;
            at += 2;
            if word == b"SKIPME" {
                filter.spare_me = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(CommandError::Syntax),
                };
                continue;
            }
            let (wanted, name) = match word.strip_prefix(b"NOT-") {
                Some(name) => (false, name),
                None => (true, &word[..]),
            };
            let mut about = About::parse(ctx, name, value)?;
            // Further ids may follow the first.
            while let About::Ids(ids) = &mut about
                && let Some(id) = ctx.args.get(at).and_then(parse_i64)
            {
                ids.push(client_id(id)?);
                at += 1;
            }
            filter.conditions.push(Condition { wanted, about });
        }
        Ok(filter)
    }

    pub(super) fn fits(&self, client: &Client, own_id: u64, now_s: i64) -> bool {
        let fits = |condition: &Condition<'_>| condition.about.fits(client, now_s) == condition.wanted;
        self.conditions.iter().all(fits) && !(self.spare_me && client.id == own_id)
    }
}

fn client_id(id: i64) -> Result<u64, CommandError> {
    let id = u64::try_from(id).ok().filter(|id| *id >= 1);
    id.ok_or(CommandError::err("client-id should be greater than 0"))
}

impl<'a> About<'a> {
    fn parse(ctx: &Ctx<'a, '_>, name: &[u8], value: &'a [u8]) -> Result<About<'a>, CommandError> {
        Ok(match name {
            b"ID" => About::Ids(vec![client_id(parse_i64(value).unwrap_or(0))?]),
            b"TYPE" => About::Type(ClientType::parse(value)?),
            b"ADDR" => About::Peer(value),
            b"LADDR" => About::Local(value),
            b"IP" => About::PeerHost(value),
            b"NAME" => About::Name(value),
            b"LIB-NAME" => About::LibraryName(value),
            b"LIB-VER" => About::LibraryVersion(value),
            b"FLAGS" => About::Flags(value),
            b"MAXAGE" => About::AgeSeconds(positive("maxage", value)?),
            b"IDLE" => About::IdleSeconds(positive("idle", value)?),
            b"DB" => {
                let number = parse_i64(value).filter(|number| *number >= 0);
                About::Database(number.ok_or(CommandError::err("DB index is out of range"))?)
            }
            b"USER" => {
                if !ctx.server().has_user(value) {
                    return Err(CommandError::err(format!(
                        "No such user '{}'",
                        String::from_utf8_lossy(value)
                    )));
                }
                About::User(value)
            }
            _ => return Err(CommandError::Syntax),
        })
    }

    fn fits(&self, client: &Client, now_s: i64) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        match self {
            About::Ids(ids) => ids.contains(&client.id),
            About::Type(wanted) => ClientType::of(client) == *wanted,
            About::User(user) => client.user().as_bytes() == *user,
            About::Peer(peer) => client.peer.as_bytes() == *peer,
            About::PeerHost(host) => host_of(&client.peer).as_bytes() == *host,
            About::Local(local) => client.local.as_bytes() == *local,
            About::Name(name) => *client.name().unwrap_or_default() == **name,
            About::LibraryName(name) => *client.library()[0] == **name,
            About::LibraryVersion(version) => *client.library()[1] == **version,
            About::Flags(flags) => {
                let has = flags_of(client, None);
                flags.iter().all(|flag| has.as_bytes().contains(flag))
            }
            About::AgeSeconds(age_s) => now_s - client.connected_s.load(Relaxed) >= *age_s,
            About::IdleSeconds(idle_s) => now_s - client.active_s.load(Relaxed) >= *idle_s,
            About::Database(number) => usize::try_from(*number) == Ok(client.database.load(Relaxed)),
        }
    }
}

fn positive(what: &str, value: &[u8]) -> Result<i64, CommandError> {
    let seconds = parse_i64(value)
        .ok_or_else(|| CommandError::err(format!("{what} is not an integer or out of range")))?;
    if seconds <= 0 {
        return Err(CommandError::err(format!("{what} should be greater than 0")));
    }
    Ok(seconds)
}

/// Returns the host of an address as CLIENT LIST shows it, without the brackets of IPv6.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
