//! The text protocol: `get`, `gets`, `stats`, `version`, `quit`; anything else is `ERROR`.
//!
//! As katsubushi speaks it: any key is accepted, each key gets an id. `gets` adds the CAS number of memcached,
//! which is the id itself; not to `GETS`, which is how katsubushi's own client writes it, because that client
//! refuses a line that has the number. Unlike there, an id that cannot be made is a `SERVER_ERROR` with the reason.

use memchr::memchr;

use super::connection::{Answers, Taken};

/// memcached's limit, in bytes.
const KEY_BYTES_MAX: usize = 250;
/// Bytes of a value besides its key: words, flags, length, the CAS number, an id, line ends.
const VALUE_BYTES_MAX: usize = 6 + 3 + 2 + 21 + 2 + 20 + 2;

/// Answers the first command in `input`, if it is complete.
pub(super) fn answer(input: &[u8], answers: &mut Answers<'_>) -> Taken {
    let line_max = answers.config.line_bytes_max;
    let Some(end) = memchr(b'\n', input) else {
        if input.len() > line_max {
            return refuse_line(answers);
        }
        return Taken::More;
    };
    if end > line_max {
        return refuse_line(answers);
    }
    let line = &input[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (command, rest) = first_word(line);
    if command.eq_ignore_ascii_case(b"get") || command.eq_ignore_ascii_case(b"gets") {
        get(rest, answers, command == b"gets");
    } else if command.eq_ignore_ascii_case(b"version") {
        answers.out.extend_from_slice(b"VERSION ");
        answers.out.extend_from_slice(answers.stats.version().as_bytes());
        answers.out.extend_from_slice(b"\r\n");
    } else if command.eq_ignore_ascii_case(b"stats") {
        stats(answers);
    } else if command.eq_ignore_ascii_case(b"quit") {
        return Taken::Close;
    } else {
        answers.out.extend_from_slice(b"ERROR\r\n");
    }
    Taken::Bytes(end + 1)
}

/// Refuses a line that is too long. Where the next one begins is unknown, so the connection ends.
fn refuse_line(answers: &mut Answers<'_>) -> Taken {
    answers.out.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
    Taken::Close
}

fn get(keys: &[u8], answers: &mut Answers<'_>, with_cas: bool) {
    let mut count = 0;
    for key in words(keys) {
        count += 1;
        if key.len() > KEY_BYTES_MAX {
            return client_error(answers, b"CLIENT_ERROR key too long\r\n");
        }
    }
    if count == 0 {
        return client_error(answers, b"ERROR\r\n");
    }
    if count > answers.config.keys_max {
        return client_error(answers, b"CLIENT_ERROR too many keys\r\n");
    }
    if let Err(error) = answers.make_ids(count) {
        answers
            .out
            .extend_from_slice(format!("SERVER_ERROR {error}\r\n").as_bytes());
        return;
    }
    let out = &mut *answers.out;
    out.reserve(keys.len() + count * VALUE_BYTES_MAX);
    let (mut digits, mut length) = (itoa::Buffer::new(), itoa::Buffer::new());
    for (key, id) in words(keys).zip(&*answers.ids) {
        let id = digits.format(*id).as_bytes();
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.extend_from_slice(b" 0 ");
        out.extend_from_slice(length.format(id.len()).as_bytes());
        if with_cas {
            out.push(b' ');
            out.extend_from_slice(id);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(id);
        out.extend_from_slice(b"\r\n");
    }
    answers.out.extend_from_slice(b"END\r\n");
}

fn client_error(answers: &mut Answers<'_>, words: &[u8]) {
    answers.counts.commands += 1;
    answers.out.extend_from_slice(words);
}

fn stats(answers: &mut Answers<'_>) {
    for (name, value) in answers.snapshot().rows() {
        answers
            .out
            .extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
    }
    answers.out.extend_from_slice(b"END\r\n");
}

fn first_word(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line
        .iter()
        .position(|byte| !is_space(*byte))
        .unwrap_or(line.len());
    let line = &line[start..];
    let end = line.iter().position(|byte| is_space(*byte)).unwrap_or(line.len());
    line.split_at(end)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty())
}

/// Spaces and control characters: no key has any.
fn is_space(byte: u8) -> bool {
    byte <= b' '
}

#[cfg(test)]
mod tests {
    use super::super::connection::testing::{TestSession, ids_of};

    #[test]
    fn each_key_gets_an_id() {
        let mut session = TestSession::new();
        assert_eq!(
            session.text("get a\r\nGETS b c\r\n"),
            "VALUE a 0 19\r\n<0>\r\nEND\r\nVALUE b 0 19\r\n<1>\r\nVALUE c 0 19\r\n<2>\r\nEND\r\n"
        );
    }

    #[test]
    fn gets_has_a_cas_number_and_katsubushis_spelling_of_it_none() {
        let mut session = TestSession::new();
        let answer = String::from_utf8(session.raw(b"gets a\r\nGETS a\r\n")).unwrap();
        let lines: Vec<&str> = answer.split("\r\n").collect();
        let words: Vec<&str> = lines[0].split(' ').collect();
        assert_eq!(words, ["VALUE", "a", "0", "19", lines[1]]);
        assert_eq!(lines[3].split(' ').count(), 4, "{answer}");
    }

    #[test]
    fn ids_rise_from_request_to_request() {
        let mut session = TestSession::new();
        let answer = session.raw(b"get a a a\r\nget a\r\n");
        let ids = ids_of(&answer);
        assert_eq!(ids.len(), 4);
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }

    #[test]
    fn lines_may_end_without_a_carriage_return_and_have_more_spaces() {
        let mut session = TestSession::new();
        assert_eq!(
            session.text("  get   a\t \nversion\n"),
            "VALUE a 0 19\r\n<0>\r\nEND\r\nVERSION 9.9\r\n"
        );
    }

    #[test]
    fn what_is_unknown_is_an_error_and_nothing_worse() {
        let mut session = TestSession::new();
        for line in ["set a 0 0 1", "1", "", "get", "gets ", "incr a 1", "g\u{e9}t a"] {
            assert_eq!(session.text(&format!("{line}\r\n")), "ERROR\r\n", "{line:?}");
        }
        assert!(!session.closed);
    }

    #[test]
    fn an_unfinished_line_waits_for_its_rest() {
        let mut session = TestSession::new();
        assert_eq!(session.text("vers"), "");
        assert_eq!(session.text("ion\r"), "");
        assert_eq!(session.text("\nversion\r\n"), "VERSION 9.9\r\nVERSION 9.9\r\n");
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let mut session = TestSession::new();
        session.config.keys_max = 3;
        session.config.line_bytes_max = 300;
        assert_eq!(session.raw(b"get a b c\r\n").len(), 3 * (14 + 21) + 5);
        assert_eq!(session.text("get a b c d\r\n"), "CLIENT_ERROR too many keys\r\n");
        assert!(
            session
                .raw(format!("get {}\r\n", "k".repeat(250)).as_bytes())
                .ends_with(b"END\r\n")
        );
        let long_key = format!("get {}\r\n", "k".repeat(251));
        assert_eq!(session.text(&long_key), "CLIENT_ERROR key too long\r\n");
        assert_eq!(session.text(&"x".repeat(300)), "");
        assert_eq!(session.text("x"), "CLIENT_ERROR line too long\r\n");
        assert!(session.closed);
    }

    #[test]
    fn a_long_line_that_arrives_at_once_is_refused_too() {
        let mut session = TestSession::new();
        session.config.line_bytes_max = 10;
        assert_eq!(session.text("get abcdefgh\r\n"), "CLIENT_ERROR line too long\r\n");
        assert!(session.closed);
    }

    #[test]
    fn without_a_number_the_reason_is_told() {
        let mut session = TestSession::new();
        session.mint.set_permit(None);
        assert_eq!(
            session.text("get a b\r\n"),
            "SERVER_ERROR no worker number is held yet\r\n"
        );
        assert!(session.text("stats\r\n").contains("STAT get_misses 1\r\n"));
    }

    #[test]
    fn stats_are_katsubushis_first() {
        let mut session = TestSession::new();
        session.raw(b"get a b\r\n");
        let answer = session.text("stats\r\n");
        let names: Vec<&str> = answer.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let expected = [
            "pid",
            "uptime",
            "time",
            "version",
            "curr_connections",
            "total_connections",
            "cmd_get",
        ];
        assert_eq!(names[..7], expected);
        assert!(
            answer.contains("STAT cmd_get 1\r\nSTAT get_hits 2\r\nSTAT get_misses 0\r\n"),
            "{answer}"
        );
        assert!(
            answer.ends_with("STAT worker_id 5\r\nSTAT fence 0\r\nEND\r\n"),
            "{answer}"
        );
    }

    #[test]
    fn quit_ends_the_connection_and_what_follows_it() {
        let mut session = TestSession::new();
        assert_eq!(session.text("version\r\nquit\r\nversion\r\n"), "VERSION 9.9\r\n");
        assert!(session.closed);
    }
}
