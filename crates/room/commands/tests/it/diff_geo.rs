use nagaya_store::rng::Rng;

use crate::harness::{Compare, drive, pick, words};

const KEYS: &[&str] = &["g1", "g2", "big", "text", "missing"];
const UNITS: &[&str] = &["m", "km", "ft", "mi", "KM"];

#[test]
fn places_reply_as_redis_replies() {
    drive(5000, |rng| (words(&request(rng)), Compare::Exact));
}

pub(crate) fn request(rng: &mut Rng) -> String {
    let key = pick(rng, KEYS);
    match rng.below(20) {
        0 => format!("SET text {}", rng.below(9)),
        1..=4 => add(rng, key),
        5 => format!(
            "GEODIST {key} {} {} {}",
            member(rng),
            member(rng),
            pick(rng, UNITS)
        ),
        6 => format!(
            "GEODIST {key} {} {}{}",
            member(rng),
            member(rng),
            pick(rng, &["", " x", " m m"])
        ),
        7 => format!("GEOPOS {key} {} {}", member(rng), member(rng)),
        8 => format!("GEOHASH {key} {} {}", member(rng), member(rng)),
        9 => format!("GEOPOS {key}"),
        // Scores that are no places of ours still decode to something.
        10 => format!(
            "ZADD {key} {} odd",
            pick(
                rng,
                &[
                    "-1",
                    "0",
                    "1",
                    "1e18",
                    "1e30",
                    "inf",
                    "-inf",
                    "0.5",
                    "4503599627370496"
                ]
            )
        ),
        11 => format!("ZRANGE {key} 0 -1 WITHSCORES"),
        12 => "ZRANGE stored 0 -1 WITHSCORES".to_owned(),
        13 => radius(rng, key),
        14 => by_member(rng, key),
        _ => search(rng, key),
    }
}

fn member(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => "odd".to_owned(),
        1 => "nobody".to_owned(),
        _ => format!("p{}", rng.below(120)),
    }
}

fn degrees(rng: &mut Rng, most: f64) -> f64 {
    let unit = rng.next_u64() as f64 / u64::MAX as f64 * 2.0 - 1.0;
    match rng.below(4) {
        // Many places near each other, some at the seams of the map.
        0 => (unit * most * 1e6).round() / 1e6,
        1 => pick(rng, &[&0.0, &1.0, &-1.0, &most, &-most, &89.0]).clamp(-most, most),
        _ => unit * 2.0 + 14.0,
    }
}

fn place(rng: &mut Rng) -> String {
    format!("{} {}", degrees(rng, 180.0), degrees(rng, 85.05112878))
}

fn add(rng: &mut Rng, key: &str) -> String {
    let count = if key == "big" { 80 } else { 1 + rng.below(4) };
    let options = pick(rng, &["", "", "", " NX", " XX", " CH", " XX CH", " NX XX", " GT"]);
    let places: String = (0..count)
        .map(|_| format!(" {} {}", place(rng), member(rng).replace("odd", "p1")))
        .collect();
    match rng.below(12) {
        0 => format!(
            "GEOADD {key} {} 10 p1",
            pick(rng, &["181", "-180.1", "x", "nan", "inf"])
        ),
        1 => format!(
            "GEOADD {key} 10 {} p1",
            pick(rng, &["85.06", "-90", "x", "1e400"])
        ),
        2 => format!("GEOADD {key}{options} 1 2 p1 3"),
        _ => format!("GEOADD {key}{options}{places}"),
    }
}

fn length(rng: &mut Rng) -> String {
    let sizes = [
        "0", "1", "50", "200", "500.5", "1000", "5000", "20000", "30000", "1e-3", "-1", "x",
    ];
    (*pick(rng, &sizes.each_ref())).to_owned()
}

fn output_options(rng: &mut Rng) -> String {
    let with = pick(
        rng,
        &[
            "",
            " WITHDIST",
            " WITHCOORD",
            " WITHHASH",
            " WITHDIST WITHCOORD WITHHASH",
        ],
    );
    let order = pick(
        rng,
        &[
            "",
            "",
            " ASC",
            " DESC",
            " COUNT 3 ANY",
            " ANY",
            " COUNT 0",
            " COUNT x",
            " COUNT",
        ],
    );
    format!("{with}{order}")
}

fn radius(rng: &mut Rng, key: &str) -> String {
    let (place, length, unit) = (place(rng), length(rng), pick(rng, UNITS));
    let options = output_options(rng);
    match rng.below(4) {
        0 => format!("GEORADIUS_RO {key} {place} {length} {unit}{options}"),
        1 => format!(
            "GEORADIUS {key} {place} {length} {unit}{}",
            pick(
                rng,
                &[
                    " STORE stored",
                    " STOREDIST stored",
                    " STORE",
                    " STORE a STORE stored",
                    " WITHDIST STORE stored",
                    " STORE stored DESC COUNT 4 ANY"
                ]
            )
        ),
        2 => format!("GEORADIUS_RO {key} {place} {length} {unit} STORE stored"),
        _ => format!("GEORADIUS {key} {place} {length} {unit}{options}"),
    }
}

fn by_member(rng: &mut Rng, key: &str) -> String {
    let (member, length, unit) = (member(rng), length(rng), pick(rng, UNITS));
    let options = output_options(rng);
    match rng.below(3) {
        0 => format!("GEORADIUSBYMEMBER_RO {key} {member} {length} {unit}{options}"),
        1 => format!(
            "GEORADIUSBYMEMBER {key} {member} {length} {unit}{}",
            pick(
                rng,
                &[" STORE stored", " STOREDIST stored", " STOREDIST stored WITHHASH"]
            )
        ),
        _ => format!("GEORADIUSBYMEMBER {key} {member} {length} {unit}{options}"),
    }
}

fn search(rng: &mut Rng, key: &str) -> String {
    let from = match rng.below(8) {
        0..=2 => format!(" FROMMEMBER {}", member(rng)),
        3..=6 => format!(" FROMLONLAT {}", place(rng)),
        _ => pick(
            rng,
            &[
                "",
                " FROMMEMBER p1 FROMLONLAT 1 2",
                " FROMLONLAT 1 2 FROMMEMBER p1",
                " FROMLONLAT 1",
                " FROMMEMBER p1 FROMMEMBER p2",
            ],
        )
        .to_owned(),
    };
    let unit = pick(rng, &["m", "km", "ft", "mi", "km", "km", "xx"]);
    let by = match rng.below(8) {
        0..=2 => format!(" BYRADIUS {} {unit}", length(rng)),
        3..=6 => format!(" BYBOX {} {} {unit}", length(rng), length(rng)),
        _ => pick(
            rng,
            &[
                "",
                " BYRADIUS 1 km BYBOX 1 1 km",
                " BYBOX 1 1",
                " BYRADIUS 5 km BYRADIUS 900 km",
            ],
        )
        .to_owned(),
    };
    match rng.below(4) {
        0 => format!(
            "GEOSEARCHSTORE stored {key}{from}{by}{}",
            pick(
                rng,
                &["", " STOREDIST", " ASC COUNT 1000", " WITHDIST", " STOREDIST x"]
            )
        ),
        1 => format!("GEOSEARCH {key}{by}{from}{}", output_options(rng)),
        _ => format!("GEOSEARCH {key}{from}{by}{}", output_options(rng)),
    }
}
