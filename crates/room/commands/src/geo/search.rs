//! Searches around a place: GEOSEARCH and the older GEORADIUS forms.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::{Args, parse_f64};
use nagaya_store::geo::{Place, SearchArea, Shape};
use nagaya_store::zset::{ScoreRange, Zset};

use super::{Reply, read_place, read_unit, write_distance, write_place};
use crate::zset;

/// Which command is asking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: the place comes first.
    Around {
        may_store: bool,
    },
    /// GEORADIUSBYMEMBER: the member comes first.
    AroundMember {
        may_store: bool,
    },
    Search,
    SearchStore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    None,
    Nearest,
    Farthest,
}

/// A search's arguments, read.
struct Query<'a> {
    /// Not known yet, or the source is missing and the member was not looked up.
    centre: Option<Place>,
    from_member: bool,
    from_place: bool,
    area: Option<SearchArea>,
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    sort: Sort,
    count: usize,
    any: bool,
    store: Option<&'a [u8]>,
    store_distance: bool,
}

struct Found {
    member: Vec<u8>,
    place: Place,
    distance_m: f64,
    score: f64,
}

/// GEORADIUS key longitude latitude radius M | KM | FT | MI [option ...]
pub(super) fn georadius(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::Around { may_store: true })
}

/// GEORADIUS_RO key longitude latitude radius M | KM | FT | MI [option ...]
pub(super) fn georadius_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::Around { may_store: false })
}

/// GEORADIUSBYMEMBER key member radius M | KM | FT | MI [option ...]
pub(super) fn georadiusbymember(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::AroundMember { may_store: true })
}

/// GEORADIUSBYMEMBER_RO key member radius M | KM | FT | MI [option ...]
pub(super) fn georadiusbymember_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::AroundMember { may_store: false })
}

/// GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude
/// BYRADIUS radius unit | BYBOX width height unit [option ...]
pub(super) fn geosearch(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::Search)
}

/// GEOSEARCHSTORE destination source, then as GEOSEARCH, and [STOREDIST]
pub(super) fn geosearchstore(ctx: &mut Ctx<'_, '_>) -> Reply {
    search(ctx, Form::SearchStore)
}

/// Finds the key that a repeated STORE or STOREDIST ends up with; the key specs name the first ones.
pub(super) fn last_store_key(args: &Args<'_>) -> Vec<usize> {
    let is = |at: usize, word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
    let (mut last, mut named) = (None, 0);
    let mut at = 5;
    while at + 1 < args.len() {
        if is(at, "store") || is(at, "storedist") {
            (last, named) = (Some(at + 1), named + 1);
            at += 1;
        }
        at += 1;
    }
    last.filter(|_| named > 1).into_iter().collect()
}

fn search(ctx: &mut Ctx<'_, '_>, form: Form) -> Reply {
    let source = if form == Form::SearchStore { 2 } else { 1 };
    let set = ctx.db.read::<Zset>(ctx.key(source))?;
    let query = read_query(ctx, form, set)?;
    check_query(ctx, form, &query)?;
    let (found, unit_m) = match (set, query.centre, query.area) {
        (Some(set), Some(centre), Some(area)) => {
            let shape = Shape {
                centre,
                area,
                unit_m: query.unit_m,
            };
            (find(set, &shape, &query), query.unit_m)
        }
        _ => (Vec::new(), 1.0),
    };
    let Some(destination) = query.store else {
        ctx.out.array(found.len());
        for found in &found {
            write_found(ctx, &query, found, unit_m);
        }
        return Ok(());
    };
    let event = match form {
        Form::SearchStore => "geosearchstore",
        _ => "georadiusstore",
    };
    let pairs = found.into_iter().map(|found| {
        let distance = found.distance_m / unit_m;
        // Rounding can leave two opposite places without a distance; a score is always a number.
        let distance = if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        };
        (
            found.member,
            if query.store_distance {
                distance
            } else {
                found.score
            },
        )
    });
    let result = zset::collect(pairs.collect(), &ctx.limits());
    zset::store(ctx.out, ctx.db, destination, result, event);
    Ok(())
}

fn read_query<'c>(ctx: &Ctx<'c, '_>, form: Form, set: Option<&Zset>) -> Result<Query<'c>, CommandError> {
    let mut query = Query {
        centre: None,
        from_member: false,
        from_place: false,
        area: None,
        unit_m: 1.0,
        with_distance: false,
        with_hash: false,
        with_place: false,
        sort: Sort::None,
        count: 0,
        any: false,
        store: None,
        store_distance: false,
    };
    let options = match form {
        Form::Around { .. } => {
            query.centre = Some(read_place(ctx, 2)?);
            query.read_radius(ctx, 4)?;
            6
        }
        Form::AroundMember { .. } => {
            // Without a source only the options matter: they decide the reply.
            if set.is_some() {
                query.centre = Some(member_place(set, ctx.key(2))?);
                query.read_radius(ctx, 3)?;
            }
            5
        }
        Form::Search => 2,
        Form::SearchStore => {
            query.store = Some(ctx.key(1));
            3
        }
    };
    let mut at = options;
    while at < ctx.args.len() {
        at += query.read_option(ctx, at, form, set)?;
    }
    Ok(query)
}

fn member_place(set: Option<&Zset>, member: &[u8]) -> Result<Place, CommandError> {
    let score = set.and_then(|set| set.score(member));
    let missing = CommandError::err("could not decode requested zset member");
    score.map(Place::from_score).ok_or(missing)
}

impl<'c> Query<'c> {
    /// Reads the option at `at`; returns how many arguments it took.
    fn read_option(
        &mut self,
        ctx: &Ctx<'c, '_>,
        at: usize,
        form: Form,
        set: Option<&Zset>,
    ) -> Result<usize, CommandError> {
        let left = ctx.args.len() - at - 1;
        let is = |word: &str| ctx.is(at, word);
        let searching = matches!(form, Form::Search | Form::SearchStore);
        let may_store =
            matches!(form, Form::Around { may_store } | Form::AroundMember { may_store } if may_store);
        match () {
            () if is("withdist") => self.with_distance = true,
            () if is("withhash") => self.with_hash = true,
            () if is("withcoord") => self.with_place = true,
            () if is("any") => self.any = true,
            () if is("asc") => self.sort = Sort::Nearest,
            () if is("desc") => self.sort = Sort::Farthest,
            () if is("count") && left >= 1 => {
                let count = usize::try_from(ctx.int(at + 1)?).ok().filter(|&count| count > 0);
                self.count = count.ok_or(CommandError::err("COUNT must be > 0"))?;
                return Ok(2);
            }
            () if may_store && left >= 1 && (is("store") || is("storedist")) => {
                self.store = Some(ctx.key(at + 1));
                self.store_distance = is("storedist");
                return Ok(2);
            }
            () if form == Form::SearchStore && is("storedist") => self.store_distance = true,
            () if searching => return self.read_search_option(ctx, at, left, set),
            () => return Err(CommandError::Syntax),
        }
        Ok(1)
    }

    /// Reads an option that only GEOSEARCH and GEOSEARCHSTORE have: the centre and the shape, one of each kind.
    fn read_search_option(
        &mut self,
        ctx: &Ctx<'c, '_>,
        at: usize,
        left: usize,
        set: Option<&Zset>,
    ) -> Result<usize, CommandError> {
        let is = |word: &str| ctx.is(at, word);
        match () {
            () if is("frommember") && left >= 1 && !self.from_place => {
                if set.is_some() {
                    self.centre = Some(member_place(set, ctx.key(at + 1))?);
                }
                self.from_member = true;
                Ok(2)
            }
            () if is("fromlonlat") && left >= 2 && !self.from_member => {
                self.centre = Some(read_place(ctx, at + 1)?);
                self.from_place = true;
                Ok(3)
            }
            () if is("byradius") && left >= 2 && !matches!(self.area, Some(SearchArea::Box { .. })) => {
                self.read_radius(ctx, at + 1)?;
                Ok(3)
            }
            () if is("bybox") && left >= 3 && !matches!(self.area, Some(SearchArea::Circle { .. })) => {
                self.read_box(ctx, at + 1)?;
                Ok(4)
            }
            () => Err(CommandError::Syntax),
        }
    }

    fn read_radius(&mut self, ctx: &Ctx<'_, '_>, at: usize) -> Reply {
        let radius = parse_f64(ctx.key(at)).ok_or(CommandError::err("need numeric radius"))?;
        if radius < 0.0 {
            return Err(CommandError::err("radius cannot be negative"));
        }
        self.unit_m = read_unit(ctx.key(at + 1))?;
        self.area = Some(SearchArea::Circle { radius });
        Ok(())
    }

    fn read_box(&mut self, ctx: &Ctx<'_, '_>, at: usize) -> Reply {
        let width = parse_f64(ctx.key(at)).ok_or(CommandError::err("need numeric width"))?;
        let height = parse_f64(ctx.key(at + 1)).ok_or(CommandError::err("need numeric height"))?;
        if height < 0.0 || width < 0.0 {
            return Err(CommandError::err("height or width cannot be negative"));
        }
        self.unit_m = read_unit(ctx.key(at + 2))?;
        self.area = Some(SearchArea::Box { width, height });
        Ok(())
    }
}

/// Refuses combinations of options that contradict each other.
fn check_query(ctx: &Ctx<'_, '_>, form: Form, query: &Query<'_>) -> Reply {
    let searching = matches!(form, Form::Search | Form::SearchStore);
    if query.store.is_some() && (query.with_distance || query.with_hash || query.with_place) {
        let who = if searching {
            "GEOSEARCHSTORE"
        } else {
            "STORE option in GEORADIUS"
        };
        return Err(CommandError::err(format!(
            "{who} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )));
    }
    let name = String::from_utf8_lossy(ctx.key(0));
    if searching && !query.from_member && !query.from_place {
        return Err(CommandError::err(format!(
            "exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
        )));
    }
    if searching && query.area.is_none() {
        return Err(CommandError::err(format!(
            "exactly one of BYRADIUS and BYBOX can be specified for {name}"
        )));
    }
    if query.any && query.count == 0 {
        return Err(CommandError::err("the ANY argument requires COUNT argument"));
    }
    Ok(())
}

/// Collects the members inside the shape, sorted and cut as the query says.
fn find(set: &Zset, shape: &Shape, query: &Query<'_>) -> Vec<Found> {
    let stop_at = if query.any { query.count } else { usize::MAX };
    let mut found = Vec::new();
    'ranges: for (min, max) in shape.score_ranges() {
        let ranks = set.score_ranks(&ScoreRange {
            max_excluded: true,
            ..ScoreRange::including(min, max)
        });
        for entry in set.range(ranks, false) {
            let place = Place::from_score(entry.score);
            if let Some(distance_m) = shape.distance_inside_m(place) {
                found.push(Found {
                    member: entry.member.to_vec(),
                    place,
                    distance_m,
                    score: entry.score,
                });
            }
            if found.len() >= stop_at {
                break 'ranges;
            }
        }
    }
    // A count without an order means the nearest ones.
    let sort = match query.sort {
        Sort::None if query.count > 0 && !query.any => Sort::Nearest,
        sort => sort,
    };
    let nearer = |a: &Found, b: &Found| a.distance_m.total_cmp(&b.distance_m);
    match sort {
        Sort::None => (),
        Sort::Nearest => found.sort_by(nearer),
        Sort::Farthest => found.sort_by(|a, b| nearer(b, a)),
    }
    if query.count > 0 {
        found.truncate(query.count);
    }
    found
}

fn write_found(ctx: &mut Ctx<'_, '_>, query: &Query<'_>, found: &Found, unit_m: f64) {
    let options =
        usize::from(query.with_distance) + usize::from(query.with_hash) + usize::from(query.with_place);
    if options > 0 {
        ctx.out.array(options + 1);
    }
    ctx.out.bulk(&found.member);
    if query.with_distance {
        write_distance(ctx.out, found.distance_m / unit_m);
    }
    if query.with_hash {
        ctx.out.int(found.score as i64);
    }
    if query.with_place {
        write_place(ctx.out, found.place);
    }
}
