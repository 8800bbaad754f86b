//! Places on a sphere as 52-bit numbers, as Redis keeps them in sorted sets.
//!
//! Longitude and latitude are each cut into `2^step` cells; the bits of the two
//! cell numbers are interleaved, so that places near each other often share a
//! prefix. At the finest step, 26, that gives a 52-bit whole number, exact in
//! the double a sorted set stores as a score. A search picks the step whose
//! cells are about as large as the searched shape and looks at the cell of the
//! centre and its eight neighbours: nine ranges of scores, then an exact test
//! of each candidate. Every formula keeps the order of operations of Redis, so
//! that the last digit of a distance agrees.

/// Latitudes beyond this are refused (the square web map ends here).
pub const LATITUDE_MAX: f64 = 85.05112878;
/// Longitudes beyond this are refused.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Cells per axis are `2^STEP_MAX` in a stored score.
const STEP_MAX: u8 = 26;
/// Quadratic mean radius of the earth, in metres.
const EARTH_RADIUS_M: f64 = 6_372_797.560856;
/// Half the width of the web map, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// Radians in a degree.
const DEGREE: f64 = std::f64::consts::PI / 180.0;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Degrees east.
    pub longitude: f64,
    /// Degrees north.
    pub latitude: f64,
}

impl Place {
    /// Returns whether the place lies where scores can express it.
    pub fn is_valid(&self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// Returns the sorted-set score of a valid place.
    pub fn score(&self) -> u64 {
        Cell::of(*self, STEP_MAX, LATITUDE_MAX).aligned()
    }

    /// Returns the middle of the finest cell a score names.
    pub fn from_score(score: f64) -> Place {
        let area = Cell {
            bits: bits_of_score(score),
            step: STEP_MAX,
        }
        .area();
        let middle = |min: f64, max: f64, bound: f64| ((min + max) / 2.0).clamp(-bound, bound);
        Place {
            longitude: middle(area.longitude_min, area.longitude_max, LONGITUDE_MAX),
            latitude: middle(area.latitude_min, area.latitude_max, LATITUDE_MAX),
        }
    }

    /// Returns the eleven letters of the public geohash text of a score.
    ///
    /// The text standard cuts latitudes from -90 to 90 degrees, so the place is
    /// encoded again; the last letter has no bits left and is always `0`.
    pub fn geohash_text(score: f64) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(Place::from_score(score), STEP_MAX, 90.0).bits;
        let mut text = [b'0'; 11];
        for (at, letter) in text[..10].iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (52 - (at + 1) * 5)) as usize & 0x1f];
        }
        text
    }

    /// Returns the great-circle distance in metres (haversine).
    pub fn distance_m(&self, other: Place) -> f64 {
        let v = ((other.longitude * DEGREE - self.longitude * DEGREE) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (from, to) = (self.latitude * DEGREE, other.latitude * DEGREE);
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

fn latitude_distance_m(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_M * (to * DEGREE - from * DEGREE).abs()
}

/// The area of a search. Lengths are in the caller's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchArea {
    /// Everything within a distance.
    Circle { radius: f64 },
    /// Everything within an axis-aligned box around the centre.
    Box { width: f64, height: f64 },
}

/// A search around a centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The centre; always valid.
    pub centre: Place,
    /// What is searched around it.
    pub area: SearchArea,
    /// Metres in one unit of the area's lengths.
    pub unit_m: f64,
}

impl Shape {
    /// Returns the distance in metres from the centre of a place inside the shape.
    pub fn distance_inside_m(&self, place: Place) -> Option<f64> {
        match self.area {
            SearchArea::Circle { radius } => {
                let distance = self.centre.distance_m(place);
                // A distance that is not a number (opposite poles) counts as inside.
                if distance > radius * self.unit_m {
                    None
                } else {
                    Some(distance)
                }
            }
            SearchArea::Box { width, height } => {
                if latitude_distance_m(place.latitude, self.centre.latitude) > height * self.unit_m / 2.0 {
                    return None;
                }
                let beside = Place {
                    longitude: self.centre.longitude,
                    latitude: place.latitude,
                };
                if place.distance_m(beside) > width * self.unit_m / 2.0 {
                    return None;
                }
                Some(self.centre.distance_m(place))
            }
        }
    }

    /// Returns the ranges of scores (low included, high excluded) that hold every place of the shape.
    ///
    /// In Redis's order, which decides what an unsorted search answers. Huge
    /// shapes make neighbours coincide; only a repeat of the range just before
    /// is dropped, again as Redis does.
    pub fn score_ranges(&self) -> Vec<(f64, f64)> {
        let mut ranges = Vec::with_capacity(9);
        let mut previous: Option<Cell> = None;
        for (at, cell) in self.cells().into_iter().enumerate() {
            let Some(cell) = cell else { continue };
            if previous == Some(cell) {
                continue;
            }
            ranges.push(cell.score_range());
            if at > 0 {
                previous = Some(cell);
            }
        }
        ranges
    }

    /// Returns the centre's cell and its neighbours, without those the shape cannot reach.
    fn cells(&self) -> [Option<Cell>; 9] {
        let bounds = self.bounds();
        let mut step = self.estimated_step();
        let mut centre = Cell::of(self.centre, step, LATITUDE_MAX);
        if step > 1 && !centre.neighbours_cover(&bounds) {
            step -= 1;
            centre = Cell::of(self.centre, step, LATITUDE_MAX);
        }
        let area = centre.area();
        let prune = step >= 2;
        let south = !(prune && area.latitude_min < bounds.latitude_min);
        let north = !(prune && area.latitude_max > bounds.latitude_max);
        let west = !(prune && area.longitude_min < bounds.longitude_min);
        let east = !(prune && area.longitude_max > bounds.longitude_max);
        let cell = |wanted: bool, x: i8, y: i8| wanted.then(|| centre.moved(x, y));
        [
            Some(centre),
            cell(north, 0, 1),
            cell(south, 0, -1),
            cell(east, 1, 0),
            cell(west, -1, 0),
            cell(north && east, 1, 1),
            cell(north && west, -1, 1),
            cell(south && east, 1, -1),
            cell(south && west, -1, -1),
        ]
    }

    /// Returns the box of degrees around the shape. Meridians draw together towards
    /// the poles, so the side nearer to a pole decides the width.
    fn bounds(&self) -> Area {
        let (half_width, half_height) = match self.area {
            SearchArea::Circle { radius } => (self.unit_m * radius, self.unit_m * radius),
            SearchArea::Box { width, height } => (self.unit_m * (width / 2.0), self.unit_m * (height / 2.0)),
        };
        let Place { longitude, latitude } = self.centre;
        let latitude_delta = half_height / EARTH_RADIUS_M / DEGREE;
        let widest_at = if latitude < 0.0 {
            latitude - latitude_delta
        } else {
            latitude + latitude_delta
        };
        let longitude_delta = half_width / EARTH_RADIUS_M / (widest_at * DEGREE).cos() / DEGREE;
        Area {
            longitude_min: longitude - longitude_delta,
            longitude_max: longitude + longitude_delta,
            latitude_min: latitude - latitude_delta,
            latitude_max: latitude + latitude_delta,
        }
    }

    /// Returns the step whose cells are about as large as the shape.
    fn estimated_step(&self) -> u8 {
        let radius = match self.area {
            SearchArea::Circle { radius } => radius,
            SearchArea::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        let mut reach_m = radius * self.unit_m;
        if reach_m == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1i32;
        while reach_m < MERCATOR_MAX_M {
            reach_m *= 2.0;
            step += 1;
        }
        // Two steps coarser, so that nine cells certainly hold the shape; more near the poles.
        step -= 2;
        let latitude = self.centre.latitude.abs();
        if latitude > 66.0 {
            step -= 1;
        }
        if latitude > 80.0 {
            step -= 1;
        }
        step.clamp(1, i32::from(STEP_MAX)) as u8
    }
}

/// A box of degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    longitude_min: f64,
    longitude_max: f64,
    latitude_min: f64,
    latitude_max: f64,
}

/// One cell: `step` bits of each axis, interleaved, longitude in the odd bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u8,
}

const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const LONGITUDE_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

impl Cell {
    fn of(place: Place, step: u8, latitude_max: f64) -> Cell {
        let cells = (1u64 << step) as f64;
        let offset = |value: f64, max: f64| ((value + max) / (max + max) * cells) as u32;
        let latitude = offset(place.latitude, latitude_max);
        let longitude = offset(place.longitude, LONGITUDE_MAX);
        Cell {
            bits: spread(latitude) | spread(longitude) << 1,
            step,
        }
    }

    fn area(&self) -> Area {
        let cells = (1u64 << self.step) as f64;
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let edge = |cell: u32, max: f64| -max + (f64::from(cell) / cells) * (max + max);
        Area {
            longitude_min: edge(longitude, LONGITUDE_MAX),
            longitude_max: edge(longitude.wrapping_add(1), LONGITUDE_MAX),
            latitude_min: edge(latitude, LATITUDE_MAX),
            latitude_max: edge(latitude.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// Returns the cell one further along each axis given, wrapping around the map.
    fn moved(&self, x: i8, y: i8) -> Cell {
        let longitude = self.bits & LONGITUDE_BITS;
        let latitude = self.bits & LATITUDE_BITS;
        Cell {
            bits: step_axis(longitude, x, self.step, LONGITUDE_BITS)
                | step_axis(latitude, y, self.step, LATITUDE_BITS),
            step: self.step,
        }
    }

    fn neighbours_cover(&self, bounds: &Area) -> bool {
        let north = self.moved(0, 1).area().latitude_max;
        let south = self.moved(0, -1).area().latitude_min;
        let east = self.moved(1, 0).area().longitude_max;
        let west = self.moved(-1, 0).area().longitude_min;
        !(north < bounds.latitude_max
            || south > bounds.latitude_min
            || east < bounds.longitude_max
            || west > bounds.longitude_min)
    }

    fn aligned(&self) -> u64 {
        self.bits << (2 * (STEP_MAX - self.step))
    }

    fn score_range(&self) -> (f64, f64) {
        let next = Cell {
            bits: self.bits + 1,
            step: self.step,
        };
        (self.aligned() as f64, next.aligned() as f64)
    }
}

/// Adds or subtracts one in the bits of one axis, letting carries run over the other axis's bits.
fn step_axis(own: u64, direction: i8, step: u8, axis: u64) -> u64 {
    let shift = 64 - u32::from(step) * 2;
    let other = !axis >> shift;
    let moved = match direction {
        0 => return own,
        1.. => own.wrapping_add(other + 1),
        _ => (own | other).wrapping_sub(other + 1),
    };
    moved & (axis >> shift)
}

/// Spreads the bits of a number over the even bits of a word.
fn spread(number: u32) -> u64 {
    let mut x = u64::from(number);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & LATITUDE_BITS
}

/// Gathers the even bits of a word.
fn gather(word: u64) -> u32 {
    let mut x = word & LATITUDE_BITS;
    x = (x | x >> 1) & 0x3333_3333_3333_3333;
    x = (x | x >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

/// Turns any score into bits as the machine Redis runs on does: negative ones
/// keep their two's complement, those past 64 bits become zero.
fn bits_of_score(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if score < HALF {
        score as i64 as u64
    } else if score - HALF < HALF {
        (score - HALF) as u64 | 1 << 63
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const PALERMO: Place = Place {
        longitude: 13.361389,
        latitude: 38.115556,
    };
    const CATANIA: Place = Place {
        longitude: 15.087269,
        latitude: 37.502669,
    };

    #[test]
    fn known_places_have_the_scores_and_texts_redis_gives() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698);
        assert_eq!(CATANIA.score(), 3_479_447_370_796_909);
        assert_eq!(&Place::geohash_text(3_479_099_956_230_698.0), b"sqc8b49rny0");
        assert_eq!(&Place::geohash_text(3_479_447_370_796_909.0), b"sqdtr74hyu0");
        let back = Place::from_score(3_479_099_956_230_698.0);
        assert_eq!(format!("{:.17}", back.longitude), "13.36138933897018433");
        assert_eq!(format!("{:.17}", back.latitude), "38.11555639549629859");
    }

    #[test]
    fn known_distance_has_the_digits_redis_gives() {
        let from = Place::from_score(PALERMO.score() as f64);
        let to = Place::from_score(CATANIA.score() as f64);
        assert_eq!(format!("{:.4}", from.distance_m(to)), "166274.1516");
    }

    #[test]
    fn spread_and_gather_undo_each_other() {
        let mut rng = Rng::seeded(1);
        for _ in 0..1_000 {
            let number = rng.next_u64() as u32;
            assert_eq!(gather(spread(number)), number);
            assert_eq!(gather(spread(number) | spread(!number) << 1), number);
        }
    }

    #[test]
    fn the_corners_of_the_map_encode_and_decode() {
        for longitude in [-LONGITUDE_MAX, LONGITUDE_MAX] {
            for latitude in [-LATITUDE_MAX, LATITUDE_MAX] {
                let place = Place { longitude, latitude };
                assert!(place.is_valid());
                let back = Place::from_score(place.score() as f64);
                assert!((back.longitude - longitude).abs() < 1e-5 && (back.latitude - latitude).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn odd_scores_decode_without_a_panic() {
        for score in [
            -1.0,
            -0.0,
            0.5,
            1e300,
            -1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.8e19,
        ] {
            let place = Place::from_score(score);
            assert!(place.longitude.is_finite() && place.latitude.is_finite());
            Place::geohash_text(score);
        }
    }

    /// Every place the exact test accepts must lie in one of the nine ranges.
    #[test]
    fn score_ranges_miss_nothing_away_from_the_seams() {
        let mut rng = Rng::seeded(5);
        let mut unit = move || rng.next_u64() as f64 / u64::MAX as f64;
        for _ in 0..2_000 {
            let centre = Place {
                longitude: unit() * 300.0 - 150.0,
                latitude: unit() * 120.0 - 60.0,
            };
            let size = 10f64.powf(unit() * 5.0);
            let area = if unit() < 0.5 {
                SearchArea::Circle { radius: size }
            } else {
                SearchArea::Box {
                    width: size * 2.0,
                    height: size,
                }
            };
            let shape = Shape {
                centre,
                area,
                unit_m: 1.0,
            };
            let ranges = shape.score_ranges();
            for _ in 0..20 {
                let place = Place {
                    longitude: centre.longitude + (unit() - 0.5) * size / 40_000.0,
                    latitude: centre.latitude + (unit() - 0.5) * size / 50_000.0,
                };
                if !place.is_valid() {
                    continue;
                }
                let score = place.score() as f64;
                if shape.distance_inside_m(Place::from_score(score)).is_some() {
                    assert!(
                        ranges.iter().any(|&(low, high)| low <= score && score < high),
                        "{shape:?} {place:?}"
                    );
                }
            }
        }
    }
}
