//! What every cold tier must do.

mod plain {
    use nagaya_room::cold::ColdTier;

    use crate::support::Place;

    fn with_sqlite(case: fn(&dyn ColdTier)) {
        case(&Place::new().open());
    }

    nagaya_room::cold_suite!(with_sqlite);
}

/// The same with one reader and JSON beside the payloads.
mod decoding {
    use nagaya_cold::{Options, SqliteCold};
    use nagaya_room::cold::ColdTier;

    use crate::support::Place;

    fn with_sqlite(case: fn(&dyn ColdTier)) {
        let place = Place::new();
        let options = Options {
            decode: true,
            readers: 1,
            ..Options::default()
        };
        case(&SqliteCold::open(place.path(), options).unwrap());
    }

    nagaya_room::cold_suite!(with_sqlite);
}
