//! A Markdown document as the steps that a reader would take.
//!
//! What a reader does without being told (opening a second terminal, pressing Ctrl-C, editing a
//! file) is said in HTML comments, which no reader sees: `<!-- test: WORDS, WORDS -->`.
//!
//! | before a block | the test |
//! |---|---|
//! | nothing | runs a `sh` block to its end, which must be a good one |
//! | `background NAME` | leaves it running; one of the same name is ended first |
//! | `until "TEXT"` | with the above: goes on once it has printed the text; without: runs the block again and again until then |
//! | `expect "TEXT"` | looks for the text in what the block printed |
//! | `fails` | wants another exit code than 0 |
//! | `instead "COMMAND"` | runs this in the block's place |
//! | `file NAME` | writes the block into a file |
//! | `output` | compares this block with what the one before has printed |
//! | `any numbers` | with the above: any number will do for a number |
//! | `browser` | runs the block in a page of the house |
//! | `run` | runs a block of another language than `sh` |
//! | `skip, REASON` | leaves it out |
//!
//! These stand alone: `stop NAME` sends TERM and waits, `end NAME` sends KILL, `says NAME "TEXT"` waits until what
//! runs in the background has printed a text, `start NAME "COMMAND"` leaves a command running that readers have already.

/// One thing to do, and the line it stands at.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) act: Act,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Run(Block),
    File { name: String, text: String },
    Stop { name: String, signal: &'static str },
    Says { name: String, text: String },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) language: String,
    pub(super) text: String,
    pub(super) background: Option<String>,
    pub(super) until: Option<String>,
    pub(super) expects: Vec<String>,
    pub(super) output: Option<Output>,
    pub(super) fails: bool,
    pub(super) in_browser: bool,
}

/// What the document shows as printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Output {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) any_numbers: bool,
}

/// What only a person can try: it builds the program, or runs these very tests.
const SKIPPABLE: [&str; 4] = ["cargo run", "cargo build", "scripts/test", "git clone"];

/// Reads a document, or says in which line it is wrong.
pub(super) fn steps(document: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut lines = document
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    while let Some((line, text)) = lines.next() {
        if let Some(comment) = text.trim().strip_prefix("<!-- test:") {
            let comment = comment
                .strip_suffix("-->")
                .ok_or(format!("{line}: the comment does not end in its line"))?;
            words = parse_words(comment).map_err(|why| format!("{line}: {why}"))?;
            if let [Word::Alone(act)] = words.as_slice() {
                let act = act.clone();
                steps.push(Step { line, act });
                words.clear();
            }
            continue;
        }
        let Some(language) = text.trim_start().strip_prefix("```") else {
            continue;
        };
        let indent = text.len() - text.trim_start().len();
        let mut body = String::new();
        loop {
            let (_, inner) = lines.next().ok_or(format!("{line}: the block has no end"))?;
            if inner.trim() == "```" {
                break;
            }
            body.push_str(inner.get(indent..).unwrap_or(inner.trim_start()));
            body.push('\n');
        }
        let words = std::mem::take(&mut words);
        add(&mut steps, line, language.trim(), body, &words).map_err(|why| format!("{line}: {why}"))?;
    }
    if words.is_empty() {
        Ok(steps)
    } else {
        Err("the last comment belongs to no block".to_owned())
    }
}

fn add(
    steps: &mut Vec<Step>,
    line: usize,
    language: &str,
    text: String,
    words: &[Word],
) -> Result<(), String> {
    if words.contains(&Word::Skip) {
        return if SKIPPABLE.iter().any(|command| text.contains(command)) {
            Ok(())
        } else {
            Err(format!("only {} may be skipped", SKIPPABLE.join(", ")))
        };
    }
    if let Some(name) = words.iter().find_map(Word::file) {
        let name = name.to_owned();
        let act = Act::File { name, text };
        steps.push(Step { line, act });
        return Ok(());
    }
    if words.contains(&Word::Output) {
        let Some(Act::Run(block)) = steps.last_mut().map(|step| &mut step.act) else {
            return Err("no block before this one prints anything".to_owned());
        };
        let any_numbers = words.contains(&Word::AnyNumbers);
        block.output = Some(Output {
            line,
            text,
            any_numbers,
        });
        return Ok(());
    }
    if language != "sh" && words.is_empty() {
        return Ok(());
    }
    let mut block = Block {
        language: language.to_owned(),
        text,
        ..Block::default()
    };
    for word in words {
        match word {
            Word::Background(name) => block.background = Some(name.clone()),
            Word::Until(text) => block.until = Some(text.clone()),
            Word::Expect(text) => block.expects.push(text.clone()),
            Word::Instead(command) => block.text = format!("{command}\n"),
            Word::Fails => block.fails = true,
            Word::Browser => block.in_browser = true,
            Word::Run => (),
            other => return Err(format!("{other:?} does not fit here")),
        }
    }
    let act = Act::Run(block);
    steps.push(Step { line, act });
    Ok(())
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Background(String),
    Until(String),
    Expect(String),
    Instead(String),
    File(String),
    /// What needs no block.
    Alone(Act),
    Fails,
    Output,
    AnyNumbers,
    Browser,
    Run,
    Skip,
}

impl Word {
    fn file(&self) -> Option<&str> {
        match self {
            Word::File(name) => Some(name),
            _ => None,
        }
    }
}

/// Reads what stands in a comment; after `skip` all is the reason.
fn parse_words(comment: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    for part in split_outside_quotes(comment) {
        let (head, rest) = part.split_once(' ').unwrap_or((part.as_str(), ""));
        let name = || {
            if rest.is_empty() {
                Err(format!("`{head}` needs a name"))
            } else {
                Ok(rest.to_owned())
            }
        };
        let quoted = |rest: &str| {
            let inner = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            inner
                .map(str::to_owned)
                .ok_or(format!("`{head}` needs a text in quotes"))
        };
        let stop = |signal| {
            Ok::<_, String>(Word::Alone(Act::Stop {
                name: name()?,
                signal,
            }))
        };
        words.push(match head {
            "background" => Word::Background(name()?),
            "until" => Word::Until(quoted(rest)?),
            "expect" => Word::Expect(quoted(rest)?),
            "instead" => Word::Instead(quoted(rest)?),
            "file" => Word::File(name()?),
            "stop" => stop("TERM")?,
            "end" => stop("KILL")?,
            "says" | "start" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let (name, text) = (name.to_owned(), quoted(text)?);
                Word::Alone(match head {
                    "says" => Act::Says { name, text },
                    _ => Act::Run(Block {
                        language: "sh".to_owned(),
                        text: format!("{text}\n"),
                        background: Some(name),
                        ..Block::default()
                    }),
                })
            }
            "fails" => Word::Fails,
            "output" => Word::Output,
            "any" if rest == "numbers" => Word::AnyNumbers,
            "browser" => Word::Browser,
            "run" => Word::Run,
            "skip" => {
                words.push(Word::Skip);
                return if comment
                    .split_once("skip,")
                    .is_some_and(|(_, why)| !why.trim().is_empty())
                {
                    Ok(words)
                } else {
                    Err("`skip` needs a reason".to_owned())
                };
            }
            other => return Err(format!("there is no `{other}`")),
        });
    }
    Ok(words)
}

fn split_outside_quotes(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(String::new());
                continue;
            }
            _ => (),
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_block(document: &str) -> Block {
        let mut steps = steps(document).unwrap();
        assert_eq!(steps.len(), 1);
        match steps.remove(0).act {
            Act::Run(block) => block,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_shell_block_runs_without_being_asked_to() {
        let block = only_block("words\n\n```sh\necho 1\necho 2\n```\n\n```json\n{}\n```\n");
        assert_eq!(
            (block.text.as_str(), block.language.as_str()),
            ("echo 1\necho 2\n", "sh")
        );
    }

    #[test]
    fn words_apply_to_the_block_below_them() {
        let text = "<!-- test: background house, until \"is ready, really\" -->\n```sh\nnagaya up\n```\n";
        let block = only_block(text);
        assert_eq!(block.background.as_deref(), Some("house"));
        assert_eq!(block.until.as_deref(), Some("is ready, really"));
    }

    #[test]
    fn output_belongs_to_the_block_above() {
        let text = "```sh\ndate\n```\n\n<!-- test: output, any numbers -->\n```text\n12:00\n```\n";
        let output = only_block(text).output.unwrap();
        assert_eq!(
            (output.text.as_str(), output.any_numbers, output.line),
            ("12:00\n", true, 6)
        );
    }

    #[test]
    fn stops_and_files_are_steps_of_their_own() {
        let text = "<!-- test: file a.toml -->\n```toml\nx = 1\n```\n<!-- test: stop house -->\n";
        let steps = steps(text).unwrap();
        assert_eq!(
            steps[0].act,
            Act::File {
                name: "a.toml".to_owned(),
                text: "x = 1\n".to_owned()
            }
        );
        assert_eq!(
            steps[1].act,
            Act::Stop {
                name: "house".to_owned(),
                signal: "TERM"
            }
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            (
                "\n<!-- test: backgruond x -->\n```sh\n```\n",
                "2: there is no `backgruond`",
            ),
            ("```sh\necho\n", "1: the block has no end"),
            (
                "<!-- test: skip -->\n```sh\ncargo run\n```\n",
                "1: `skip` needs a reason",
            ),
            ("<!-- test: skip, slow -->\n```sh\nls\n```\n", "2: only cargo run"),
            ("<!-- test: run -->\n", "the last comment belongs to no block"),
        ] {
            let error = steps(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
