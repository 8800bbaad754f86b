//! Single values on the wire: lengths of time, points in time, ids.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A length of time, as a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

/// Longest accepted duration, in seconds; anything longer is a mistake.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Seconds, D::Error> {
        let seconds = f64::deserialize(source)?;
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(D::Error::invalid_value(
                Unexpected::Float(seconds),
                &"seconds from 0 to 31622400",
            ));
        }
        Ok(Seconds(Duration::from_millis((seconds * 1_000.0).round() as u64)))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_millis() {
            0 => out.serialize_u64(self.0.as_secs()),
            _ => out.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

impl PartialSchema for Seconds {
    fn schema() -> RefOr<Schema> {
        let seconds = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .maximum(Some(SECONDS_MAX))
            .description(Some("Seconds; fractions down to a millisecond count."));
        RefOr::T(Schema::Object(seconds.build()))
    }
}

impl ToSchema for Seconds {
    fn name() -> Cow<'static, str> {
        "Seconds".into()
    }
}

/// A point in time: Unix milliseconds inside, RFC 3339 outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) i64);

/// 9999-12-31T23:59:59Z, Unix milliseconds; RFC 3339 ends there.
const TIME_MAX_MS: i64 = 253_402_300_799_000;

impl Time {
    pub(crate) fn parse(text: &str) -> Option<Time> {
        let time: Timestamp = text.parse().ok()?;
        Some(Time(time.as_millisecond()))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Time, D::Error> {
        let text = Cow::<'de, str>::deserialize(source)?;
        Time::parse(&text).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Str(&text), &"a time like 2026-11-15T09:00:00Z")
        })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::from_millisecond(self.0.clamp(0, TIME_MAX_MS)).unwrap_or(Timestamp::UNIX_EPOCH);
        out.collect_str(&time)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let time = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A point in time (RFC 3339)."));
        RefOr::T(Schema::Object(time.build()))
    }
}

impl ToSchema for Time {
    fn name() -> Cow<'static, str> {
        "Time".into()
    }
}

/// A number that JavaScript would round: a string on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<T>(pub(crate) T);

impl<T: std::fmt::Display> Serialize for Number<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

/// A job's id.
pub(crate) type Id = Number<nagaya_jobs::JobId>;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Id, D::Error> {
        let text = Cow::<'de, str>::deserialize(source)?;
        let id = text.parse();
        id.map(Number)
            .map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), &"a job id as a string"))
    }
}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let id = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[1-9][0-9]{0,18}$"))
            .description(Some("A job's id: a number of up to 63 bits, as a string."));
        RefOr::T(Schema::Object(id.build()))
    }
}

impl ToSchema for Id {
    fn name() -> Cow<'static, str> {
        "JobId".into()
    }
}

/// A position in the event log.
pub(crate) type Position = Number<u64>;

impl PartialSchema for Position {
    fn schema() -> RefOr<Schema> {
        let position = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^(0|[1-9][0-9]{0,18})$"))
            .description(Some("A position in the event log, as a string."));
        RefOr::T(Schema::Object(position.build()))
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Position, D::Error> {
        let text = Cow::<'de, str>::deserialize(source)?;
        let position = parse_position(&text);
        position
            .map(Number)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"a position as a string"))
    }
}

impl ToSchema for Position {
    fn name() -> Cow<'static, str> {
        "Position".into()
    }
}

/// Parses a position in the log; stores count within 63 bits.
pub(crate) fn parse_position(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let position: u64 = digits.then(|| text.parse().ok())??;
    (position <= i64::MAX as u64).then_some(position)
}

/// Parses a duration in a query: `30s`, `500ms`, `2m`, or seconds without a unit.
pub(crate) fn parse_wait(text: &str) -> Option<Duration> {
    let unit_at = text
        .find(|one: char| one.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = plain.then(|| number.parse::<f64>().ok())?? * scale;
    (seconds <= SECONDS_MAX).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_units() {
        let ms = |text: &str| parse_wait(text).map(|wait| wait.as_millis());
        assert_eq!(ms("30s"), Some(30_000));
        assert_eq!(ms("1.5"), Some(1_500));
        assert_eq!(ms("250ms"), Some(250));
        assert_eq!(ms("2m"), Some(120_000));
        for bad in [
            "",
            "s",
            "-1s",
            "1d",
            "1 s",
            "nan",
            "inf",
            "1e3",
            "1.2.3s",
            "99999999h",
        ] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn lengths_are_whole_numbers_where_they_can_be() {
        let text = |ms| serde_json::to_string(&Seconds(Duration::from_millis(ms))).unwrap();
        assert_eq!((text(60_000), text(1_500)), ("60".into(), "1.5".into()));
        for bad in ["-1", "1e300", "\"1\"", "null", "31622401"] {
            assert!(serde_json::from_str::<Seconds>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read_in_any_zone_and_written_in_utc() {
        let time: Time = serde_json::from_str("\"2026-11-15T18:00:00.5+09:00\"").unwrap();
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2026-11-15T09:00:00.5Z\""
        );
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
    }

    #[test]
    fn positions_fit_what_stores_count() {
        assert_eq!(parse_position("0"), Some(0));
        assert_eq!(parse_position("9223372036854775808"), None);
        assert_eq!(parse_position("+1"), None);
    }
}
