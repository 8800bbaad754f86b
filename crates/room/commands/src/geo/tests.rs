use nagaya_resp::Proto;

use crate::testing::TestSession;

fn sicily() -> TestSession {
    let mut session = TestSession::new();
    session.check(
        "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        ":2\r\n",
    );
    session
}

#[test]
fn distances_have_four_decimals_in_every_unit() {
    let mut session = sicily();
    session.check("GEODIST g Palermo Catania", "$11\r\n166274.1516\r\n");
    session.check("GEODIST g Palermo Catania km", "$8\r\n166.2742\r\n");
    session.check("GEODIST g Palermo Catania MI", "$8\r\n103.3182\r\n");
    session.check("GEODIST g Palermo Palermo", "$6\r\n0.0000\r\n");
    session.check("GEODIST g Palermo nobody", "$-1\r\n");
    session.check(
        "GEODIST g Palermo Catania yd",
        "-ERR unsupported unit provided. please use M, KM, FT, MI\r\n",
    );
}

#[test]
fn places_outside_the_map_are_refused_with_their_numbers() {
    let mut session = TestSession::new();
    session.check(
        "GEOADD g 210 10 x",
        "-ERR invalid longitude,latitude pair 210.000000,10.000000\r\n",
    );
    session.check(
        "GEOADD g 10 86 x",
        "-ERR invalid longitude,latitude pair 10.000000,86.000000\r\n",
    );
    session.check("GEOADD g NX XX 10 10 x", "-ERR syntax error\r\n");
    session.check("ZCARD g", ":0\r\n");
}

#[test]
fn coordinates_are_bulk_strings_or_doubles_by_protocol() {
    let mut session = sicily();
    let (longitude, latitude) = ("13.36138933897018433", "38.11555639549629859");
    session.check(
        "GEOPOS g Palermo nobody",
        &format!("*2\r\n*2\r\n$20\r\n{longitude}\r\n$20\r\n{latitude}\r\n*-1\r\n"),
    );
    session.client.set_proto(Proto::Resp3);
    session.check(
        "GEOPOS g Palermo",
        &format!("*1\r\n*2\r\n,{longitude}\r\n,{latitude}\r\n"),
    );
}

#[test]
fn a_search_names_its_centre_and_its_shape_once() {
    let mut session = sicily();
    session.check(
        "GEOSEARCH g BYRADIUS 1 km ASC WITHDIST",
        "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH\r\n",
    );
    session.check(
        "geosearch g FROMLONLAT 15 37 ASC WITHDIST",
        "-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch\r\n",
    );
    session.check(
        "GEOSEARCH g FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 1 km",
        "-ERR syntax error\r\n",
    );
    session.check(
        "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 km BYBOX 1 1 km",
        "-ERR syntax error\r\n",
    );
    session.check(
        "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC",
        "*2\r\n$7\r\nCatania\r\n$7\r\nPalermo\r\n",
    );
    session.check(
        "GEOSEARCH g FROMLONLAT 15 37 BYBOX 200 200 km ANY",
        "-ERR the ANY argument requires COUNT argument\r\n",
    );
}

#[test]
fn the_last_of_several_destinations_counts() {
    let mut session = sicily();
    for n in 0..30 {
        let request = format!("GEORADIUS g 15 37 200 km STORE a{n} STOREDIST b STORE c{n}");
        session.check(&request, ":2\r\n");
        session.check(&format!("ZCARD a{n}"), ":0\r\n");
        session.check("ZCARD b", ":0\r\n");
        session.check(&format!("ZSCORE c{n} Palermo"), "$16\r\n3479099956230698\r\n");
    }
    session.check(
        "GEORADIUS g 15 37 200 km STORE d WITHDIST",
        "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options\r\n",
    );
    session.check("GEORADIUS_RO g 15 37 200 km STORE d", "-ERR syntax error\r\n");
}

#[test]
fn a_missing_source_empties_the_destination() {
    let mut session = sicily();
    session.check("GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 10 km", ":1\r\n");
    session.check(
        "GEOSEARCHSTORE d missing FROMMEMBER Palermo BYRADIUS 10 km",
        ":0\r\n",
    );
    session.check("GET d", "$-1\r\n");
    session.check("GEORADIUSBYMEMBER missing who x y", "*0\r\n");
    session.check(
        "GEORADIUSBYMEMBER g who 1 km",
        "-ERR could not decode requested zset member\r\n",
    );
}
