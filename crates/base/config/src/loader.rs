//! Merges the sources, checks every value and remembers where it came from.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Problem};
use crate::file;
use crate::nearest::nearest;
use crate::section::{Field, InvalidValue, Section, SectionMeta, env_name};
use crate::value::Raw;

/// The prefix of every environment variable that sets something.
const ENV_PREFIX: &str = "NAGAYA_";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { name: String, line: usize },
    Env { name: String },
    Flag { name: String },
}

/// A value given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The setting, as `section.key`.
    pub key: String,
    pub value: String,
    /// The flag as the user typed it, for error messages.
    pub name: String,
}

/// Collects values from the sources, each overriding the ones before it.
///
/// Call [`Loader::file`], [`Loader::env`] and [`Loader::flags`] in that order. A bad value
/// is reported even if a later source overrides it.
pub struct Loader {
    sections: Vec<&'static SectionMeta>,
    values: BTreeMap<String, (Raw, Origin)>,
    problems: Vec<Problem>,
    ignored: Vec<String>,
}

/// A complete, valid configuration.
pub struct Loaded {
    sections: Vec<&'static SectionMeta>,
    values: BTreeMap<String, (Raw, Origin)>,
    ignored: Vec<String>,
}

/// One effective value, for showing.
pub struct Entry<'a> {
    pub section: &'static SectionMeta,
    pub field: &'static Field,
    /// The canonical value; `***` for a secret that is set.
    pub shown: Raw,
    pub origin: &'a Origin,
}

impl Loader {
    pub fn new(sections: &[&'static SectionMeta]) -> Loader {
        Loader {
            sections: sections.to_vec(),
            values: BTreeMap::new(),
            problems: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Takes the values of a TOML file; `name` is how errors call it.
    pub fn file(&mut self, name: &str, text: &str) {
        let items = match file::items(text, &self.sections) {
            Ok(items) => items,
            Err(problem) => {
                let origin = Origin::File {
                    name: name.to_owned(),
                    line: problem.line,
                };
                self.problems.push(Problem {
                    origin,
                    message: problem.message,
                });
                return;
            }
        };
        for item in items {
            let origin = Origin::File {
                name: name.to_owned(),
                line: item.line,
            };
            match item.value {
                Some(raw) => self.set(&item.key, raw, origin),
                None => self.unknown_section(&item.key, origin),
            }
        }
    }

    /// Takes the values of the environment: every `NAGAYA_` name with a double underscore must be a setting, and so
    /// must every name that is a setting's but for its underscores. All others are ignored and remembered.
    pub fn env(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort();
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(ENV_PREFIX) else {
                continue;
            };
            if !path.contains("__") {
                self.single_underscore(name);
                continue;
            }
            let key = path.to_ascii_lowercase().replace("__", ".");
            if find(&self.sections, &key).is_some() {
                self.set(&key, Raw::Words(value), Origin::Env { name });
                continue;
            }
            let known: Vec<_> = all_fields(&self.sections).map(|(s, f)| f.full_name(s)).collect();
            let suggestion = nearest(&key, known.iter().map(String::as_str))
                .map(|near| format!("; did you mean {}?", env_name(near)));
            let message = format!("no setting has this name{}", suggestion.unwrap_or_default());
            self.problems.push(Problem {
                origin: Origin::Env { name },
                message,
            });
        }
    }

    /// A name without a double underscore sets nothing. Who meant a setting must be told: the value may be a password.
    fn single_underscore(&mut self, name: String) {
        let meant = all_fields(&self.sections)
            .map(|(section, field)| env_name(&field.full_name(section)))
            .find(|known| known.replace("__", "_").eq_ignore_ascii_case(&name));
        match meant {
            Some(known) => self.problems.push(Problem {
                origin: Origin::Env { name },
                message: format!("no setting has this name; did you mean {known}?"),
            }),
            None => self.ignored.push(name),
        }
    }

    /// Takes the values of the command line.
    pub fn flags(&mut self, flags: impl IntoIterator<Item = Flag>) {
        for flag in flags {
            self.set(
                &flag.key,
                Raw::Words(flag.value),
                Origin::Flag { name: flag.name },
            );
        }
    }

    /// Fills in the defaults and returns the whole, or all problems at once.
    pub fn finish(self) -> Result<Loaded, Error> {
        if !self.problems.is_empty() {
            return Err(Error {
                problems: self.problems,
            });
        }
        let mut values = self.values;
        for (section, field) in all_fields(&self.sections) {
            values
                .entry(field.full_name(section))
                .or_insert_with(|| ((field.default)(), Origin::Default));
        }
        Ok(Loaded {
            sections: self.sections,
            values,
            ignored: self.ignored,
        })
    }

    fn set(&mut self, key: &str, raw: Raw, origin: Origin) {
        let Some((_, field)) = find(&self.sections, key) else {
            return self.unknown_key(key, origin);
        };
        match (field.check)(&raw) {
            Ok(_) => {
                self.values.insert(key.to_owned(), (raw, origin));
            }
            Err(invalid) => {
                let message = describe_invalid(key, field, &raw, invalid);
                self.problems.push(Problem { origin, message });
            }
        }
    }

    fn unknown_key(&mut self, key: &str, origin: Origin) {
        let known: Vec<String> = all_fields(&self.sections).map(|(s, f)| f.full_name(s)).collect();
        // A key misspelt inside the right section is judged by its last part alone, so that
        // a long section name does not make everything in it look alike.
        let (section, last) = key.rsplit_once('.').unwrap_or(("", key));
        let here = self.sections.iter().find(|meta| meta.name == section);
        let near = here
            .and_then(|meta| nearest(last, meta.fields.iter().map(|field| field.name)))
            .map(|name| format!("{section}.{name}"))
            .or_else(|| nearest(key, known.iter().map(String::as_str)).map(str::to_owned));
        let suggestion = near
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        self.problems.push(Problem {
            origin,
            message: format!("unknown key `{key}`{suggestion}"),
        });
    }

    fn unknown_section(&mut self, name: &str, origin: Origin) {
        let suggestion = nearest(name, self.sections.iter().map(|section| section.name))
            .map(|name| format!("; did you mean `[{name}]`?"))
            .unwrap_or_else(|| {
                let names: Vec<_> = self.sections.iter().map(|s| format!("[{}]", s.name)).collect();
                format!("; there are {}", names.join(", "))
            });
        self.problems.push(Problem {
            origin,
            message: format!("unknown section `[{name}]`{suggestion}"),
        });
    }
}

impl Loaded {
    /// Builds the config of one component.
    ///
    /// # Panics
    /// When the section was not among those given to [`Loader::new`].
    pub fn section<S: Section>(&self) -> S {
        S::build(&|field| {
            let key = format!("{}.{field}", S::META.name);
            let (raw, _) = self
                .values
                .get(&key)
                .expect("every declared section is given to the loader");
            raw.clone()
        })
    }

    /// All effective values, in the order in which they were declared.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        all_fields(&self.sections).map(|(section, field)| {
            let (raw, origin) = &self.values[&field.full_name(section)];
            let shown = (field.check)(raw).expect("only checked values are kept");
            Entry {
                section,
                field,
                shown,
                origin,
            }
        })
    }

    /// The `NAGAYA_` names of the environment that set nothing.
    pub fn ignored_variables(&self) -> &[String] {
        &self.ignored
    }

    /// Where a value came from; `None` when there is no such setting.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.values.get(key).map(|(_, origin)| origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { name, line: 0 } => f.write_str(name),
            Origin::File { name, line } => write!(f, "{name}:{line}"),
            Origin::Env { name } => write!(f, "environment {name}"),
            Origin::Flag { name } => write!(f, "flag {name}"),
        }
    }
}

fn all_fields(
    sections: &[&'static SectionMeta],
) -> impl Iterator<Item = (&'static SectionMeta, &'static Field)> {
    sections
        .iter()
        .flat_map(|section| section.fields.iter().map(move |field| (*section, field)))
}

fn find(sections: &[&'static SectionMeta], key: &str) -> Option<(&'static SectionMeta, &'static Field)> {
    all_fields(sections).find(|(section, field)| {
        let rest = key
            .strip_prefix(section.name)
            .and_then(|rest| rest.strip_prefix('.'));
        rest == Some(field.name)
    })
}

fn describe_invalid(key: &str, field: &Field, raw: &Raw, invalid: InvalidValue) -> String {
    let found = match raw {
        _ if field.secret => "another kind of value".to_owned(),
        // Its contents matter only where a table is expected.
        Raw::Table(_) if !field.kind.starts_with("a table") => "a table".to_owned(),
        raw => raw.to_string(),
    };
    match invalid {
        InvalidValue::OutOfRange { low, high } => {
            let unit = field.unit.map(|unit| format!(" {unit}")).unwrap_or_default();
            format!("`{key}` is {found}, allowed are {low} to {high}{unit}")
        }
        InvalidValue::WrongType => {
            let words: Vec<_> = (field.choices)().iter().map(|choice| choice.word).collect();
            if words.is_empty() {
                return format!("`{key}` must be {}, found {found}", field.kind.replace('`', ""));
            }
            let near = raw.text().and_then(|text| nearest(text, words.iter().copied()));
            let suggestion = near
                .map(|word| format!("; did you mean \"{word}\"?"))
                .unwrap_or_default();
            format!(
                "`{key}` must be one of {}, found {found}{suggestion}",
                words.join(", ")
            )
        }
    }
}
