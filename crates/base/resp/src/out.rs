//! The reply writer.

use memchr::memchr2;

use crate::double::format_double;

/// The protocol version a connection speaks, as chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proto {
    #[default]
    Resp2,
    Resp3,
}

/// A place in an [`Out`]: where a header goes later, or where to cut a half-written reply off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub struct Mark(usize);

impl From<Mark> for usize {
    fn from(mark: Mark) -> usize {
        mark.0
    }
}

/// Appends replies to a byte vector in the connection's protocol.
///
/// The writer does not check that a header is followed by as many elements as it announces; that is the
/// caller's promise.
#[derive(Clone, Debug, Default)]
pub struct Out {
    pub buf: Vec<u8>,
    pub proto: Proto,
}

impl Out {
    #[inline]
    pub fn new(proto: Proto) -> Self {
        Out {
            buf: Vec::new(),
            proto,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Drops everything written since `to`, a length or a mark.
    pub fn truncate(&mut self, to: impl Into<usize>) {
        self.buf.truncate(to.into());
    }

    /// Appends bytes that already are a reply.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.simple_bytes(text.as_bytes());
    }

    /// Writes a simple string; line breaks in it become spaces.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        self.buf.push(b'+');
        push_line(&mut self.buf, text);
    }

    /// Writes an error from its whole text, prefix included: `ERR syntax error`.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// Writes an error whose text quotes a client's bytes. Line breaks at its end are cut, others become
    /// spaces.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let kept = text
            .iter()
            .rposition(|byte| !matches!(byte, b'\r' | b'\n'))
            .map_or(0, |last| last + 1);
        self.buf.push(b'-');
        push_line(&mut self.buf, &text[..kept]);
    }

    #[inline]
    pub fn int(&mut self, value: i64) {
        push_int_line(&mut self.buf, b':', value);
    }

    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        push_bulk(&mut self.buf, bytes);
    }

    #[inline]
    pub fn bulk_str(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes the absence of a value: `$-1`, or the RESP3 null.
    #[inline]
    pub fn nil(&mut self) {
        self.by_proto(b"$-1\r\n", b"_\r\n");
    }

    /// Writes the absence of a list: `*-1`, or the RESP3 null.
    #[inline]
    pub fn nil_array(&mut self) {
        self.by_proto(b"*-1\r\n", b"_\r\n");
    }

    #[inline]
    pub fn bool(&mut self, value: bool) {
        if value {
            self.by_proto(b":1\r\n", b"#t\r\n");
        } else {
            self.by_proto(b":0\r\n", b"#f\r\n");
        }
    }

    #[inline]
    pub fn array(&mut self, len: usize) {
        push_header(&mut self.buf, b'*', len);
    }

    /// Starts a map of `pairs` keys, each followed by its value; a flat array in RESP2.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        let (tag, len) = self.map_header(pairs);
        push_header(&mut self.buf, tag, len);
    }

    #[inline]
    pub fn set(&mut self, len: usize) {
        let tag = self.tag(b'~');
        push_header(&mut self.buf, tag, len);
    }

    /// Starts a message the client did not ask for; a plain array in RESP2.
    #[inline]
    pub fn push(&mut self, len: usize) {
        let tag = self.tag(b'>');
        push_header(&mut self.buf, tag, len);
    }

    /// Starts `pairs` of side information about the reply that follows them.
    ///
    /// RESP2 has no such thing: the caller leaves attributes out there.
    pub fn attribute(&mut self, pairs: usize) {
        debug_assert_eq!(self.proto, Proto::Resp3, "attributes exist only in RESP3");
        push_header(&mut self.buf, b'|', pairs);
    }

    /// Writes a double: its own type in RESP3, a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        match self.proto {
            Proto::Resp2 => self.bulk_double(value),
            Proto::Resp3 => {
                self.buf.push(b',');
                format_double(value, &mut self.buf);
                self.raw(b"\r\n");
            }
        }
    }

    /// Writes a double as a bulk string in both protocols.
    pub fn bulk_double(&mut self, value: f64) {
        // The longest is -1.7976931348623157e+308, so the length has at most two digits.
        let start = self.buf.len();
        self.raw(b"$00\r\n");
        format_double(value, &mut self.buf);
        let len = self.buf.len() - start - 5;
        self.buf[start + 1] = b'0' + (len / 10) as u8;
        self.buf[start + 2] = b'0' + (len % 10) as u8;
        if len < 10 {
            self.buf.remove(start + 1);
        }
        self.raw(b"\r\n");
    }

    /// Writes text with a three-letter format such as `txt`; a plain bulk string in RESP2.
    ///
    /// The format is cut or padded with spaces to three bytes.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        if self.proto == Proto::Resp2 {
            return self.bulk(text);
        }
        let mut tag = [b' '; 3];
        for (to, from) in tag.iter_mut().zip(format.bytes()) {
            *to = from;
        }
        push_verbatim(&mut self.buf, tag, text);
    }

    /// Writes an integer of any size from its decimal digits; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk_str(digits),
            Proto::Resp3 => {
                self.buf.push(b'(');
                push_line(&mut self.buf, digits.as_bytes());
            }
        }
    }

    /// Marks the place of a header whose count is known only after its elements.
    ///
    /// Finishing moves the elements written since, so use it where counting first would cost more.
    /// Nested marks are finished innermost first.
    #[inline]
    pub fn defer(&mut self) -> Mark {
        Mark(self.buf.len())
    }

    #[inline]
    pub fn finish_array(&mut self, mark: Mark, len: usize) {
        self.insert_header(mark, b'*', len);
    }

    #[inline]
    pub fn finish_map(&mut self, mark: Mark, pairs: usize) {
        let (tag, len) = self.map_header(pairs);
        self.insert_header(mark, tag, len);
    }

    #[inline]
    pub fn finish_set(&mut self, mark: Mark, len: usize) {
        self.insert_header(mark, self.tag(b'~'), len);
    }

    pub fn finish_push(&mut self, mark: Mark, len: usize) {
        self.insert_header(mark, self.tag(b'>'), len);
    }

    #[inline]
    fn by_proto(&mut self, resp2: &[u8], resp3: &[u8]) {
        let bytes = match self.proto {
            Proto::Resp2 => resp2,
            Proto::Resp3 => resp3,
        };
        self.buf.extend_from_slice(bytes);
    }

    /// Returns the header byte of an aggregate that RESP2 shows as an array.
    #[inline]
    fn tag(&self, resp3: u8) -> u8 {
        match self.proto {
            Proto::Resp2 => b'*',
            Proto::Resp3 => resp3,
        }
    }

    #[inline]
    fn map_header(&self, pairs: usize) -> (u8, usize) {
        match self.proto {
            Proto::Resp2 => (b'*', pairs * 2),
            Proto::Resp3 => (b'%', pairs),
        }
    }

    fn insert_header(&mut self, mark: Mark, tag: u8, len: usize) {
        // The header goes behind the elements first, only to learn its length and make room.
        let (Mark(start), end) = (mark, self.buf.len());
        push_header(&mut self.buf, tag, len);
        let header_len = self.buf.len() - end;
        self.buf[start..].rotate_right(header_len);
    }
}

/// Appends `tag`, a count or length, and the line end.
#[inline]
pub(crate) fn push_header(buf: &mut Vec<u8>, tag: u8, len: usize) {
    if len < 10 {
        return buf.extend_from_slice(&[tag, b'0' + len as u8, b'\r', b'\n']);
    }
    buf.push(tag);
    buf.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    buf.extend_from_slice(b"\r\n");
}

#[inline]
pub(crate) fn push_int_line(buf: &mut Vec<u8>, tag: u8, value: i64) {
    if (0..10).contains(&value) {
        return buf.extend_from_slice(&[tag, b'0' + value as u8, b'\r', b'\n']);
    }
    buf.push(tag);
    buf.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    buf.extend_from_slice(b"\r\n");
}

#[inline]
pub(crate) fn push_bulk(buf: &mut Vec<u8>, bytes: &[u8]) {
    push_header(buf, b'$', bytes.len());
    buf.extend_from_slice(bytes);
    buf.extend_from_slice(b"\r\n");
}

pub(crate) fn push_verbatim(buf: &mut Vec<u8>, format: [u8; 3], text: &[u8]) {
    push_header(buf, b'=', text.len() + 4);
    buf.extend_from_slice(&format);
    buf.push(b':');
    buf.extend_from_slice(text);
    buf.extend_from_slice(b"\r\n");
}

/// Appends `text` and the line end; a line break inside would let one reply pass for two, so each of its
/// bytes becomes a space.
pub(crate) fn push_line(buf: &mut Vec<u8>, text: &[u8]) {
    if memchr2(b'\r', b'\n', text).is_none() {
        buf.extend_from_slice(text);
    } else {
        buf.extend(
            text.iter()
                .map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }),
        );
    }
    buf.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Out), resp2: &str, resp3: &str) {
        for (proto, expected) in [(Proto::Resp2, resp2), (Proto::Resp3, resp3)] {
            let mut out = Out::new(proto);
            write(&mut out);
            assert_eq!(
                out.buf.escape_ascii().to_string(),
                expected.as_bytes().escape_ascii().to_string()
            );
        }
    }

    fn check_both(write: impl Fn(&mut Out), expected: &str) {
        check(write, expected, expected);
    }

    #[test]
    fn types_of_both_protocols_look_the_same_in_each() {
        check_both(Out::ok, "+OK\r\n");
        check_both(|out| out.simple("QUEUED"), "+QUEUED\r\n");
        check_both(|out| out.error("ERR no such key"), "-ERR no such key\r\n");
        check_both(|out| out.int(0), ":0\r\n");
        check_both(|out| out.int(10), ":10\r\n");
        check_both(|out| out.int(i64::MIN), ":-9223372036854775808\r\n");
        check_both(|out| out.bulk(b""), "$0\r\n\r\n");
        check_both(|out| out.bulk_str("0123456789"), "$10\r\n0123456789\r\n");
        check_both(|out| out.bulk_int(-7), "$2\r\n-7\r\n");
        check_both(|out| out.bulk_double(0.1), "$19\r\n0.10000000000000001\r\n");
        check_both(|out| out.bulk_double(3.5), "$3\r\n3.5\r\n");
        check_both(|out| out.array(12), "*12\r\n");
    }

    #[test]
    fn resp3_types_fall_back_in_resp2() {
        check(Out::nil, "$-1\r\n", "_\r\n");
        check(Out::nil_array, "*-1\r\n", "_\r\n");
        check(|out| out.bool(true), ":1\r\n", "#t\r\n");
        check(|out| out.bool(false), ":0\r\n", "#f\r\n");
        check(|out| out.map(6), "*12\r\n", "%6\r\n");
        check(|out| out.set(2), "*2\r\n", "~2\r\n");
        check(|out| out.push(3), "*3\r\n", ">3\r\n");
        check(|out| out.double(3.25), "$4\r\n3.25\r\n", ",3.25\r\n");
        check(|out| out.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
        check(
            |out| out.verbatim("txt", b"hi"),
            "$2\r\nhi\r\n",
            "=6\r\ntxt:hi\r\n",
        );
        check(|out| out.verbatim("t", b""), "$0\r\n\r\n", "=4\r\nt  :\r\n");
        check(|out| out.big_number("-12"), "$3\r\n-12\r\n", "(-12\r\n");
    }

    #[test]
    fn a_line_break_cannot_split_a_reply() {
        check_both(|out| out.simple("a\r\nb"), "+a  b\r\n");
        check_both(|out| out.error("ERR bad\r\n+OK\r\n"), "-ERR bad  +OK\r\n");
        check_both(|out| out.error_bytes(b"\r\n"), "-\r\n");
    }

    #[test]
    fn a_header_put_in_later_equals_one_written_first() {
        type Header = fn(&mut Out, usize);
        type Finish = fn(&mut Out, Mark, usize);
        let kinds: [(Header, Finish); 4] = [
            (Out::array, Out::finish_array),
            (Out::map, Out::finish_map),
            (Out::set, Out::finish_set),
            (Out::push, Out::finish_push),
        ];
        for proto in [Proto::Resp2, Proto::Resp3] {
            for (header, finish) in kinds {
                for len in [0, 1, 5, 9, 10, 1234] {
                    let (mut direct, mut deferred) = (Out::new(proto), Out::new(proto));
                    direct.int(1);
                    deferred.int(1);
                    header(&mut direct, len);
                    let mark = deferred.defer();
                    for at in 0..len {
                        direct.bulk_int(at as i64);
                        deferred.bulk_int(at as i64);
                    }
                    finish(&mut deferred, mark, len);
                    assert_eq!(direct.buf, deferred.buf);
                }
            }
        }
    }

    #[test]
    fn nested_marks_are_finished_inside_out() {
        let mut out = Out::new(Proto::Resp3);
        let outer = out.defer();
        out.int(1);
        let inner = out.defer();
        out.int(2);
        out.finish_set(inner, 1);
        out.finish_array(outer, 2);
        assert_eq!(out.buf, b"*2\r\n:1\r\n~1\r\n:2\r\n");
    }

    #[test]
    fn a_half_written_reply_can_be_taken_back() {
        let mut out = Out::new(Proto::Resp2);
        out.ok();
        let (mark, len) = (out.defer(), out.len());
        out.array(2);
        out.int(1);
        let mut other = out.clone();
        out.truncate(mark);
        other.truncate(len);
        assert_eq!(
            (out.buf.as_slice(), other.buf.as_slice()),
            (&b"+OK\r\n"[..], &b"+OK\r\n"[..])
        );
    }
}
