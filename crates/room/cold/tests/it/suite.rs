//! What every cold tier must do.

mod plain {
    use nagaya_tiering::cold::ColdTier;

    use crate::support::Place;

    fn with_sqlite(case: fn(&dyn ColdTier)) {
        case(&Place::new().open());
    }

    nagaya_tiering::cold_suite!(with_sqlite);
}

/// The same with one reader and JSON beside the payloads.
mod decoding {
    use nagaya_cold::{Options, SqliteCold};
    use nagaya_tiering::cold::ColdTier;

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

    nagaya_tiering::cold_suite!(with_sqlite);
}

/// On PostgreSQL, without another process.
mod postgres {
    use nagaya_cold::postgres::Options;
    use nagaya_tiering::cold::ColdTier;

    use crate::postgres::{unfiltered, with_tier};

    fn with_postgres(case: fn(&dyn ColdTier)) {
        let options = Options {
            decode: true,
            ..unfiltered()
        };
        with_tier("plain", options, case);
    }

    nagaya_tiering::cold_suite!(with_postgres);
}

/// The same with one connection and a filter that answers for absent tags.
mod postgres_filtered {
    use nagaya_cold::postgres::Options;
    use nagaya_tiering::cold::ColdTier;

    use crate::postgres::{filtered, with_tier};

    fn with_postgres(case: fn(&dyn ColdTier)) {
        let options = Options {
            connections_max: 1,
            ..filtered()
        };
        with_tier("filtered", options, case);
    }

    nagaya_tiering::cold_suite!(with_postgres);
}
