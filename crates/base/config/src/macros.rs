//! The two macros with which components declare their settings.

/// Declares a section of settings.
///
/// ```
/// use nagaya_config::{Listen, Section, settings};
/// use std::time::Duration;
///
/// settings! {
///     /// The front door.
///     pub struct DoorConfig in "door" {
///         /// Where it listens.
///         listen: Listen = "127.0.0.1:9000", fixed, flag "--door-listen";
///         /// How long it stays open.
///         open_for: Duration = "5s", fixed, range "1s" to "1h";
///         /// How many may enter.
///         guests_max: u32 = 10, fixed, range 1 to 1000, unit "guests";
///     }
/// }
///
/// assert_eq!(DoorConfig::default().open_for, Duration::from_secs(5));
/// assert_eq!(DoorConfig::META.fields.len(), 3);
/// ```
///
/// After the default come `fixed` or `reloadable`, then in this order and all optional:
/// `range LOW to HIGH`, `unit "NAME"`, `flag "--NAME"`. Defaults and ends of ranges are
/// written as in TOML; the default of an `Option` is usually [`Unset`](crate::Unset).
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $visibility:vis struct $name:ident in $section:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $type:ty = $default:expr, $reload:ident
                $(, range $low:literal to $high:literal)?
                $(, unit $unit:literal)?
                $(, flag $flag:literal)?;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        $visibility struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $crate::Section for $name {
            const META: &'static $crate::SectionMeta = &$crate::SectionMeta {
                name: $section,
                doc: &[$($about),+],
                fields: &[$($crate::Field {
                    name: stringify!($field),
                    doc: &[$($doc),+],
                    kind: <$type as $crate::Value>::KIND,
                    choices: <$type as $crate::Value>::choices,
                    default: || $crate::Raw::from($default),
                    range: $crate::settings!(@range $($low, $high)?),
                    unit: $crate::settings!(@option $($unit)?),
                    reload: $crate::settings!(@reload $reload),
                    secret: <$type as $crate::Value>::SECRET,
                    flag: $crate::settings!(@option $($flag)?),
                    check: $crate::settings!(@check $type $(, $low, $high)?),
                }),+],
            };

            fn build(value_of: &dyn Fn(&str) -> $crate::Raw) -> Self {
                $name {
                    $($field: <$type as $crate::Value>::read(&value_of(stringify!($field)))
                        .expect("the value was checked when it was loaded"),)+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                let fields = <Self as $crate::Section>::META.fields;
                <Self as $crate::Section>::build(&|name| {
                    let field = fields.iter().find(|field| field.name == name);
                    field.map_or($crate::Raw::Unset, |field| (field.default)())
                })
            }
        }
    };
    (@reload fixed) => { $crate::ReloadPolicy::Fixed };
    (@reload reloadable) => { $crate::ReloadPolicy::Reloadable };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
    (@range) => { None };
    (@range $low:literal, $high:literal) => {
        Some(|| ($crate::Raw::from($low), $crate::Raw::from($high)))
    };
    (@check $type:ty) => { $crate::check::<$type> };
    (@check $type:ty, $low:literal, $high:literal) => {
        |raw| $crate::check_range::<$type>(raw, $crate::Raw::from($low), $crate::Raw::from($high))
    };
}

/// Declares a closed set of words as an enum that a setting can have as its type.
///
/// ```
/// nagaya_config::choices! {
///     /// How loud.
///     pub enum Volume {
///         /// Hardly to be heard.
///         Low = "low",
///         /// Heard next door.
///         High = "high",
///     }
/// }
///
/// assert_eq!(Volume::High.word(), "high");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[doc = $about:literal])+
        $visibility:vis enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// The word as it is written in a config file.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl $crate::Value for $name {
            const KIND: &'static str = "one of the words listed";

            fn read(raw: &$crate::Raw) -> Option<Self> {
                match raw.text()? {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }

            fn write(&self) -> $crate::Raw {
                $crate::Raw::from(self.word())
            }

            fn choices() -> &'static [$crate::Choice] {
                &[$($crate::Choice { word: $word, doc: &[$($doc),+] }),+]
            }
        }
    };
}
