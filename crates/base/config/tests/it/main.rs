//! The promises of the loader, the reference and the macros, on a made-up house.

mod loader;
mod reference;

use nagaya_config::{ByteSize, Listen, Secret, Section, SectionMeta, Unset, choices, settings};
use std::path::PathBuf;
use std::time::Duration;

choices! {
    /// How the bell rings.
    pub enum Bell {
        /// One stroke.
        Single = "single",
        /// Two strokes,
        /// the second one lower.
        Double = "double",
    }
}

settings! {
    /// The front door.
    pub struct DoorConfig in "door" {
        /// Where it listens.
        listen: Listen = "127.0.0.1:9000", fixed, flag "--door-listen";
        /// How long it stays open.
        open_for: Duration = "5s", fixed, range "100ms" to "1h";
        /// How many may enter.
        guests_max: u16 = 10, reloadable, range 1 to 1000, unit "guests";
        /// How much they may carry.
        luggage_max: ByteSize = "2mb", fixed;
        /// The password.
        password: Option<Secret> = Unset, fixed;
        /// How the bell rings.
        bell: Bell = "single", fixed;
        /// Names on the plate.
        names: Vec<String> = ["smith"], fixed;
        /// How far it opens.
        angle: f64 = 1.5, fixed, range 0.0 to 3.1;
        /// Whether it is locked.
        locked: bool = true, fixed;
        /// Where the key lies.
        key: PathBuf = "under/the/mat", fixed;
    }
}

settings! {
    /// The letter box in the door.
    pub struct LettersConfig in "door.letters" {
        /// How many fit.
        letters_max: u32 = 5, fixed;
    }
}

fn sections() -> [&'static SectionMeta; 2] {
    [DoorConfig::META, LettersConfig::META]
}
