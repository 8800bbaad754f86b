//! How a row of the tables of settings is written.

use crate::settings::types::{Access, Effect, Kind, Place, Setting, Unit};

pub(crate) const I32: i128 = i32::MAX as i128;
pub(crate) const I64: i128 = i64::MAX as i128;

/// A setting that is in force.
pub(crate) const fn row(name: &'static str, kind: Kind, place: Place) -> Setting {
    Setting {
        name,
        alias: None,
        kind,
        place,
        access: Access::Free,
        hidden: false,
        secret: false,
        effect: Effect::InForce,
        effect_on_redis: None,
    }
}

/// A setting that is in force and reads and checks its text itself.
pub(crate) const fn special(
    name: &'static str,
    get: fn(&crate::config::Config) -> String,
    set: fn(&mut crate::config::Config, &str) -> Result<(), String>,
) -> Setting {
    row(name, Kind::Special, Place::Special { get, set })
}

/// A setting that takes any value and changes nothing.
pub(crate) const fn harmless(
    name: &'static str,
    kind: Kind,
    starts_as: &'static str,
    why: &'static str,
) -> Setting {
    row(name, kind, Place::Idle(starts_as)).has(Effect::Harmless(why))
}

/// A setting that has one value.
pub(crate) const fn refused(name: &'static str, kind: Kind, is: &'static str, why: &'static str) -> Setting {
    row(name, kind, Place::Idle(is)).has(Effect::Refused(why))
}

pub(crate) const fn number(min: i128, max: i128) -> Kind {
    Kind::Number {
        min,
        max,
        unit: Unit::None,
    }
}

pub(crate) const fn bytes(min: i128, max: i128) -> Kind {
    Kind::Number {
        min,
        max,
        unit: Unit::Bytes,
    }
}

impl Setting {
    pub(crate) const fn alias(mut self, name: &'static str) -> Setting {
        self.alias = Some(name);
        self
    }

    pub(crate) const fn fixed(mut self) -> Setting {
        self.access = Access::Fixed;
        self
    }

    pub(crate) const fn protected(mut self) -> Setting {
        self.access = Access::Protected;
        self
    }

    pub(crate) const fn hidden(mut self) -> Setting {
        self.hidden = true;
        self
    }

    pub(crate) const fn secret(mut self) -> Setting {
        self.secret = true;
        self
    }

    pub(crate) const fn has(mut self, effect: Effect) -> Setting {
        self.effect = effect;
        self
    }

    /// Sets what is different when the data is on Redis servers.
    pub(crate) const fn on_redis(mut self, effect: Effect) -> Setting {
        self.effect_on_redis = Some(effect);
        self
    }
}
