//! Places on the earth, kept in sorted sets.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DENYOOM, OW, READONLY, RO, RW, UPDATE, WRITE, key, key_after,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_resp::{Out, Proto};
use nagaya_store::geo::Place;
use nagaya_store::zset::{AddFlags, Zset};

use crate::zset::add_pairs;

mod search;

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("GEOADD", -5, geoadd)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RW.and(UPDATE))])
        .since("3.2.0")
        .about(
            "Adds members with their places on the earth to a sorted set.",
            "O(log(N)) per member, for N members",
        ),
    cmd("GEODIST", -4, geodist)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("3.2.0")
        .about("Returns the distance between two members.", "O(1)"),
    cmd("GEOHASH", -2, geohash)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("3.2.0")
        .about(
            "Returns the places of members as geohash texts.",
            "O(1) per member asked for",
        ),
    cmd("GEOPOS", -2, geopos)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("3.2.0")
        .about(
            "Returns the longitudes and latitudes of members.",
            "O(1) per member asked for",
        ),
    cmd("GEORADIUS", -6, search::georadius)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::GEO)
        .group("geo")
        .keys(&[
            key(1, RO.and(ACCESS)),
            key_after("STORE", 6, OW.and(UPDATE)),
            key_after("STOREDIST", 6, OW.and(UPDATE)),
        ])
        .more_keys(search::last_store_key)
        .since("3.2.0")
        .about(
            "Returns or stores the members within a distance of a place.",
            "O(N+log(M)) for N of M members in the cells around the circle",
        ),
    cmd("GEORADIUSBYMEMBER", -5, search::georadiusbymember)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::GEO)
        .group("geo")
        .keys(&[
            key(1, RO.and(ACCESS)),
            key_after("STORE", 5, OW.and(UPDATE)),
            key_after("STOREDIST", 5, OW.and(UPDATE)),
        ])
        .more_keys(search::last_store_key)
        .since("3.2.0")
        .about(
            "Returns or stores the members within a distance of a member.",
            "O(N+log(M)) for N of M members in the cells around the circle",
        ),
    cmd("GEORADIUSBYMEMBER_RO", -5, search::georadiusbymember_ro)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("3.2.10")
        .about(
            "Returns the members within a distance of a member.",
            "O(N+log(M)) for N of M members in the cells around the circle",
        ),
    cmd("GEORADIUS_RO", -6, search::georadius_ro)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("3.2.10")
        .about(
            "Returns the members within a distance of a place.",
            "O(N+log(M)) for N of M members in the cells around the circle",
        ),
    cmd("GEOSEARCH", -7, search::geosearch)
        .flags(READONLY)
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns the members inside a circle or box.",
            "O(N+log(M)) for N of M members in the cells around the shape",
        ),
    cmd("GEOSEARCHSTORE", -8, search::geosearchstore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::GEO)
        .group("geo")
        .keys(&[key(1, OW.and(UPDATE)), key(2, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Stores the members inside a circle or box.",
            "O(N+log(M)) for N of M members in the cells around the shape",
        ),
];

/// GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]
fn geoadd(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (mut first, mut flags, mut count_changed) = (2, AddFlags::default(), false);
    while first < ctx.args.len() {
        match () {
            () if ctx.is(first, "nx") => flags.nx = true,
            () if ctx.is(first, "xx") => flags.xx = true,
            () if ctx.is(first, "ch") => count_changed = true,
            () => break,
        }
        first += 1;
    }
    let rest = ctx.args.len() - first;
    if rest == 0 || !rest.is_multiple_of(3) || (flags.nx && flags.xx) {
        return Err(CommandError::Syntax);
    }
    let places = (first..ctx.args.len()).step_by(3);
    let scores: Result<Vec<f64>, CommandError> =
        places.map(|at| Ok(read_place(ctx, at)?.score() as f64)).collect();
    let members = ctx.args;
    add_pairs(
        ctx,
        &scores?,
        |pair| &members[first + 2 + pair * 3],
        flags,
        count_changed,
    )
}

/// GEODIST key member member [M | KM | FT | MI]
fn geodist(ctx: &mut Ctx<'_, '_>) -> Reply {
    let unit_m = match ctx.args.len() {
        4 => 1.0,
        5 => read_unit(ctx.key(4))?,
        _ => return Err(CommandError::Syntax),
    };
    let set = ctx.db.read::<Zset>(ctx.key(1))?;
    let place = |at: usize| set.and_then(|set| set.score(ctx.key(at))).map(Place::from_score);
    match (place(2), place(3)) {
        (Some(from), Some(to)) => write_distance(ctx.out, from.distance_m(to) / unit_m),
        _ => ctx.out.nil(),
    }
    Ok(())
}

/// GEOHASH key [member ...]
fn geohash(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set = ctx.db.read::<Zset>(ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.out.bulk(&Place::geohash_text(score)),
            None => ctx.out.nil(),
        }
    }
    Ok(())
}

/// GEOPOS key [member ...]
fn geopos(ctx: &mut Ctx<'_, '_>) -> Reply {
    let set = ctx.db.read::<Zset>(ctx.key(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.iter().skip(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => write_place(ctx.out, Place::from_score(score)),
            None => ctx.out.nil_array(),
        }
    }
    Ok(())
}

/// Reads a longitude and the latitude after it.
fn read_place(ctx: &Ctx<'_, '_>, at: usize) -> Result<Place, CommandError> {
    let place = Place {
        longitude: ctx.float(at)?,
        latitude: ctx.float(at + 1)?,
    };
    if !place.is_valid() {
        let Place { longitude, latitude } = place;
        return Err(CommandError::err(format!(
            "invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        )));
    }
    Ok(place)
}

/// Returns the metres in a unit.
fn read_unit(text: &[u8]) -> Result<f64, CommandError> {
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    match () {
        () if is("m") => Ok(1.0),
        () if is("km") => Ok(1000.0),
        () if is("ft") => Ok(0.3048),
        () if is("mi") => Ok(1609.34),
        () => Err(CommandError::err(
            "unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

/// Writes a distance with four decimals.
fn write_distance(out: &mut Out, distance: f64) {
    let scaled = distance * 10_000.0;
    // What does not fit turns into the lowest integer, as the processor has it: seen
    // for places exactly opposite, whose distance is not a number.
    let scaled = match scaled.abs() < 9_223_372_036_854_775_808.0 {
        true => scaled.round_ties_even() as i64,
        false => i64::MIN,
    };
    let sign = if scaled < 0 { "-" } else { "" };
    let (whole, part) = (scaled.unsigned_abs() / 10_000, scaled.unsigned_abs() % 10_000);
    out.bulk_str(&format!("{sign}{whole}.{part:04}"));
}

/// Writes longitude and latitude with up to seventeen decimals.
fn write_place(out: &mut Out, place: Place) {
    out.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match out.proto {
            Proto::Resp2 => out.bulk_str(text),
            Proto::Resp3 => {
                out.raw(b",");
                out.raw(text.as_bytes());
                out.raw(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests;
