use super::*;
use nagaya_config::{Loader, reference_page, sample_file};

#[test]
fn the_reference_tells_all_that_was_declared() {
    let page = reference_page(&sections());
    let guests = "### `door.guests_max`\n\nHow many may enter.\n\n- Type: a whole number\n- Default: `10`\n\
                  - Range: `1` to `1000` guests\n- Environment: `NAGAYA_DOOR__GUESTS_MAX`\n\
                  - A change takes effect while running.\n";
    assert!(page.contains(guests), "{page}");
    assert!(page.contains("- Flag: `--door-listen`\n"));
    assert!(page.contains("- `\"double\"`: Two strokes, the second one lower.\n"));
    assert!(page.contains("## `[door.letters]`\n\nThe letter box in the door.\n"));
}

#[test]
fn the_sample_with_its_comments_removed_is_a_valid_file_of_defaults() {
    let sample = sample_file(&sections());
    assert!(sample.contains("# open_for = \"5s\"\n"), "{sample}");
    let live: String = sample
        .lines()
        .filter(|line| line.starts_with('[') || line.contains(" = "))
        .map(|line| line.trim_start_matches("# ").to_owned() + "\n")
        .collect();
    let mut loader = Loader::new(&sections());
    loader.file("sample.toml", &live);
    let loaded = loader.finish().unwrap_or_else(|error| panic!("{error}\n{live}"));
    assert_eq!(loaded.section::<DoorConfig>().names, ["smith"]);
}
