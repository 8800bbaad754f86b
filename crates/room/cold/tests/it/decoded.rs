//! JSON beside the payload.

use nagaya_cold::{Options, SqliteCold};
use nagaya_tiering::cold::ColdTier;
use rusqlite::Connection;

use crate::support::{Place, gone, put, save};

fn values(place: &Place) -> Vec<(String, String, String, Option<String>)> {
    let connection = Connection::open(place.path()).unwrap();
    let mut statement = connection
        .prepare("SELECT tag, key, type, value FROM decoded_keys ORDER BY tag, key")
        .unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

fn row(tag: &str, key: &str, value: Option<&str>) -> (String, String, String, Option<String>) {
    (tag.into(), key.into(), "string".into(), value.map(Into::into))
}

#[test]
fn the_view_shows_values_as_json_when_asked_for() {
    let place = Place::new();
    let options = Options {
        decode: true,
        ..Options::default()
    };
    let cold = SqliteCold::open(place.path(), options).unwrap();
    save(
        &cold,
        b"t",
        1,
        vec![put(b"a", b"text"), put(b"b", b"\xff"), gone(b"c")],
    );
    save(&cold, b"u", 2, vec![put(b"a", b"12")]);
    let expected = [
        row("t", "a", Some("\"text\"")),
        row("t", "b", Some("{\"base64\":\"/w==\"}")),
        row("u", "a", Some("\"12\"")),
    ];
    assert_eq!(values(&place), expected);
}

#[test]
fn without_asking_there_is_no_json() {
    let place = Place::new();
    let cold = place.open();
    save(&cold, b"t", 1, vec![put(b"a", b"text")]);
    assert_eq!(values(&place), [row("t", "a", None)]);
    assert_eq!(cold.totals().unwrap().keys, 1);
}
