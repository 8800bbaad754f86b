//! Opening, reopening, and files that are not ours.

use nagaya_cold::{OpenError, Options, SchemaError, SqliteCold};
use nagaya_tiering::cold::{ColdError, ColdTier};
use rusqlite::Connection;

use crate::support::{Place, assert_sound, payload, put, rows, save};

#[test]
fn what_was_saved_is_there_after_reopening() {
    let place = Place::new();
    save(&place.open(), b"t", 1, vec![put(b"k", b"v")]);
    let cold = place.open();
    assert_eq!(rows(&cold, b"t"), [(b"k".to_vec(), payload(b"v"))]);
    assert_sound(&cold);
}

#[test]
fn a_tool_reads_while_the_server_writes_and_cannot_write() {
    let place = Place::new();
    let server = place.open();
    save(&server, b"t", 1, vec![put(b"k", b"v")]);
    let tool = SqliteCold::open_read_only(place.path(), Options::default()).unwrap();
    assert_eq!(rows(&tool, b"t").len(), 1);
    save(&server, b"t", 2, vec![put(b"l", b"v")]);
    assert_eq!(rows(&tool, b"t").len(), 2);
    assert!(matches!(tool.ensure(&[b"x"]), Err(ColdError::Failed(_))));
    assert_sound(&tool);
}

#[test]
fn a_tool_reads_a_file_that_no_server_has_open() {
    let place = Place::new();
    save(&place.open(), b"t", 1, vec![put(b"k", b"v")]);
    let tool = SqliteCold::open_read_only(place.path(), Options::default()).unwrap();
    assert_eq!(rows(&tool, b"t").len(), 1);
}

#[test]
fn a_tool_does_not_make_a_file() {
    let place = Place::new();
    let opened = SqliteCold::open_read_only(place.path(), Options::default());
    assert!(matches!(opened, Err(OpenError::Failed { .. })));
    assert!(!place.path().exists());
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let place = Place::new();
    std::fs::write(place.path(), vec![b'x'; 8192]).unwrap();
    let Err(error) = SqliteCold::open(place.path(), Options::default()) else {
        panic!("it opened");
    };
    let OpenError::Failed { source, .. } = error else {
        panic!("{error}");
    };
    assert!(matches!(source, ColdError::Damaged { .. }));
}

#[test]
fn a_database_of_another_program_is_not_touched() {
    let place = Place::new();
    let theirs = Connection::open(place.path()).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(theirs);
    let before = std::fs::read(place.path()).unwrap();
    let opened = SqliteCold::open(place.path(), Options::default());
    assert!(matches!(
        opened,
        Err(OpenError::Schema(SchemaError::NotOurs { .. }))
    ));
    assert_eq!(std::fs::read(place.path()).unwrap(), before);
}

#[test]
fn schema_0_is_empty_and_comes_back_up() {
    let place = Place::new();
    save(&place.open(), b"t", 1, vec![put(b"k", b"v")]);
    SqliteCold::migrate_to(place.path(), 0).unwrap();
    let tool = SqliteCold::open_read_only(place.path(), Options::default());
    assert!(matches!(
        tool,
        Err(OpenError::Schema(SchemaError::Older { found: 0, .. }))
    ));
    let cold = place.open();
    assert_eq!(cold.read(&[b"t"]).unwrap(), [None]);
    save(&cold, b"t", 1, vec![put(b"k", b"v")]);
}
