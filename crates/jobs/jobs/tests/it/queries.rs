//! The statements of the two stores.

use std::collections::BTreeSet;
use std::path::Path;

fn areas(store: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{store}/src/queries"));
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn both_stores_keep_their_statements_in_the_same_files() {
    assert_eq!(areas("sqlite"), areas("postgres"));
}
