//! `redis.conf` as text: lines of words, and the same as arguments.

use std::path::Path;

use anyhow::{Context, bail};

/// How deep files may include each other.
const INCLUDES_MAX: usize = 16;

/// One directive and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// For people: a file with a line, or the argument.
    pub(super) origin: String,
    /// In lower case.
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// Reads what redis-server takes on its command line: a file, then directives with two dashes before them.
pub(super) fn read(words: &[String]) -> anyhow::Result<Vec<Directive>> {
    let (mut found, arguments) = match words {
        [file, rest @ ..] if !file.starts_with("--") => (read_file(Path::new(file), 0)?, rest),
        rest => (Vec::new(), rest),
    };
    for word in arguments {
        match word.strip_prefix("--") {
            Some(name) if !name.is_empty() => found.push(Directive {
                origin: format!("argument {word}"),
                name: name.to_ascii_lowercase(),
                values: Vec::new(),
            }),
            _ => match found
                .last_mut()
                .filter(|last| last.origin.starts_with("argument "))
            {
                Some(directive) => directive.values.push(word.clone()),
                None => bail!("`{word}` belongs to no directive; directives begin with two dashes"),
            },
        }
    }
    Ok(found)
}

fn read_file(path: &Path, depth: usize) -> anyhow::Result<Vec<Directive>> {
    let shown = path.display();
    if depth > INCLUDES_MAX {
        bail!("{shown}: files include each other more than {INCLUDES_MAX} deep");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let origin = format!("{shown}:{}", index + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(mut words) = split(line) else {
            bail!("{origin}: a quote is not closed, or is followed by more than a space");
        };
        let name = words.remove(0).to_ascii_lowercase();
        if name == "include" {
            for included in &words {
                found.extend(read_file(Path::new(included), depth + 1)?);
            }
            continue;
        }
        found.push(Directive {
            origin,
            name,
            values: words,
        });
    }
    Ok(found)
}

/// Splits a line into words, which may stand in quotes; nothing when a quote is not closed. A line that is not
/// empty has a word at least.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(&first) = letters.peek() else {
            return Some(words);
        };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            letters.next();
            loop {
                match letters.next()? {
                    letter if letter == first => break,
                    '\\' if first == '"' => word.push(escaped(&mut letters)?),
                    '\\' if letters.next_if_eq(&'\'').is_some() => word.push('\''),
                    letter => word.push(letter),
                }
            }
            if letters.peek().is_some_and(|letter| !letter.is_whitespace()) {
                return None;
            }
        } else {
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
}

/// Reads what follows a backslash inside double quotes.
fn escaped(letters: &mut impl Iterator<Item = char>) -> Option<char> {
    Some(match letters.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'a' => '\u{7}',
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_that_may_stand_in_quotes() {
        let check = |line: &str, words: &[&str]| {
            assert_eq!(split(line).expect(line), words, "{line}");
        };
        check("save 900 1", &["save", "900", "1"]);
        check("save \"\"", &["save", ""]);
        check(r#"requirepass "a b\"c\n""#, &["requirepass", "a b\"c\n"]);
        check(r"requirepass 'it\'s'", &["requirepass", "it's"]);
        assert_eq!(split("requirepass \"open"), None);
        assert_eq!(split("requirepass \"a\"b"), None);
    }

    #[test]
    fn arguments_are_directives_with_their_values() {
        let words = ["--port", "6390", "--save", "900", "1", "--SAVE", ""].map(str::to_owned);
        let found = read(&words).expect("directives");
        let shown: Vec<String> = found
            .iter()
            .map(|directive| format!("{} {}", directive.name, directive.values.join(" ")))
            .collect();
        assert_eq!(shown, ["port 6390", "save 900 1", "save "]);
        assert!(read(&["/nowhere/redis.conf".to_owned()]).is_err());
    }
}
