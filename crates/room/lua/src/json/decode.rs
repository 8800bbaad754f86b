//! `cjson.decode`.

use std::borrow::Cow;

use super::Config;
use crate::number;
use crate::raw::{Lua, Raise, Slice};

/// Levels at most, whatever the setting: the decoder's own recursion must fit a thread's stack.
const DEPTH_MAX: i32 = 2000;

/// cjson.decode(text)
pub(super) fn decode(lua: Lua<'_>) -> Result<i32, Raise> {
    if lua.top() != 1 {
        return Err(Raise::Argument(1, "expected 1 argument".into()));
    }
    let data = lua.check_bytes(1)?;
    if let [first, second, ..] = data
        && (*first == 0 || *second == 0)
    {
        return Err(Raise::located("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser {
        lua,
        config: lua.block(1),
        data,
        at: 0,
        depth: 0,
    };
    let token = parser.next_token();
    parser.push_value(token)?;
    let token = parser.next_token();
    match token.kind {
        TokenKind::End => Ok(1),
        _ => Err(unexpected("the end", &token)),
    }
}

struct Token<'a> {
    kind: TokenKind<'a>,
    /// Where it starts, or where the error is.
    at: usize,
}

enum TokenKind<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Cow<'a, [u8]>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl TokenKind<'_> {
    /// Returns the name that error texts use.
    fn name(&self) -> &'static str {
        match self {
            TokenKind::ObjectBegin => "T_OBJ_BEGIN",
            TokenKind::ObjectEnd => "T_OBJ_END",
            TokenKind::ArrayBegin => "T_ARR_BEGIN",
            TokenKind::ArrayEnd => "T_ARR_END",
            TokenKind::String(_) => "T_STRING",
            TokenKind::Number(_) => "T_NUMBER",
            TokenKind::Boolean(_) => "T_BOOLEAN",
            TokenKind::Null => "T_NULL",
            TokenKind::Colon => "T_COLON",
            TokenKind::Comma => "T_COMMA",
            TokenKind::End => "T_END",
            TokenKind::Error(text) => text,
        }
    }
}

fn unexpected(expected: &str, found: &Token<'_>) -> Raise {
    Raise::located(format!(
        "Expected {expected} but found {} at character {}",
        found.kind.name(),
        found.at + 1
    ))
}

struct Parser<'l> {
    lua: Lua<'l>,
    config: Config,
    data: Slice<'l>,
    at: usize,
    depth: i32,
}

impl<'l> Parser<'l> {
    fn push_value(&mut self, token: Token<'l>) -> Result<(), Raise> {
        match token.kind {
            TokenKind::String(text) => self.lua.push_bytes(&text),
            TokenKind::Number(number) => self.lua.push_number(number),
            TokenKind::Boolean(value) => self.lua.push_boolean(value),
            TokenKind::ObjectBegin => return self.push_object(),
            TokenKind::ArrayBegin => return self.push_array(),
            TokenKind::Null => self.lua.push_null(),
            _ => return Err(unexpected("value", &token)),
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), Raise> {
        self.depth += 1;
        if self.depth > self.config.decode_max_depth.min(DEPTH_MAX) || !self.lua.reserve(3) {
            return Err(Raise::located(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            )));
        }
        // A table costs far more than the two bytes it takes in JSON.
        self.lua.context().check_room(0)
    }

    fn push_object(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.lua.new_table(0, 0);
        let mut token = self.next_token();
        while !matches!(token.kind, TokenKind::ObjectEnd) {
            match token.kind {
                TokenKind::String(text) => self.lua.push_bytes(&text),
                _ => return Err(unexpected("object key string", &token)),
            }
            token = self.next_token();
            if !matches!(token.kind, TokenKind::Colon) {
                return Err(unexpected("colon", &token));
            }
            token = self.next_token();
            self.push_value(token)?;
            self.lua.raw_set(-3);
            token = self.next_token();
            match token.kind {
                TokenKind::ObjectEnd => break,
                TokenKind::Comma => token = self.next_token(),
                _ => return Err(unexpected("comma or object end", &token)),
            }
            // After a comma another key must follow; the end is only good right after the brace.
            if matches!(token.kind, TokenKind::ObjectEnd) {
                return Err(unexpected("object key string", &token));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn push_array(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.lua.new_table(0, 0);
        let mut token = self.next_token();
        if !matches!(token.kind, TokenKind::ArrayEnd) {
            for index in 1.. {
                self.push_value(token)?;
                self.lua.raw_set_index(-2, index);
                token = self.next_token();
                match token.kind {
                    TokenKind::ArrayEnd => break,
                    TokenKind::Comma => token = self.next_token(),
                    _ => return Err(unexpected("comma or array end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the byte `ahead` of the current one; past the end it is zero, which ends the text as it does in C.
    fn peek(&self, ahead: usize) -> u8 {
        self.data.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next_token(&mut self) -> Token<'l> {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let start = self.at;
        let kind = match self.peek(0) {
            0 => TokenKind::End,
            b'{' => self.single(TokenKind::ObjectBegin),
            b'}' => self.single(TokenKind::ObjectEnd),
            b'[' => self.single(TokenKind::ArrayBegin),
            b']' => self.single(TokenKind::ArrayEnd),
            b',' => self.single(TokenKind::Comma),
            b':' => self.single(TokenKind::Colon),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.config.decode_invalid_numbers && self.is_invalid_number() {
                    TokenKind::Error("invalid number")
                } else {
                    self.number()
                }
            }
            _ => self.word(),
        };
        let at = if matches!(kind, TokenKind::Error(_)) {
            self.at
        } else {
            start
        };
        Token { kind, at }
    }

    fn single(&mut self, kind: TokenKind<'l>) -> TokenKind<'l> {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> TokenKind<'l> {
        let rest = &self.data[self.at..];
        let (kind, len) = if rest.starts_with(b"true") {
            (TokenKind::Boolean(true), 4)
        } else if rest.starts_with(b"false") {
            (TokenKind::Boolean(false), 5)
        } else if rest.starts_with(b"null") {
            (TokenKind::Null, 4)
        } else if matches!(rest.first(), Some(b'i' | b'I' | b'n' | b'N' | b'+'))
            && self.config.decode_invalid_numbers
            && self.is_invalid_number()
        {
            return self.number();
        } else {
            return TokenKind::Error("invalid token");
        };
        self.at += len;
        kind
    }

    fn number(&mut self) -> TokenKind<'l> {
        let (number, len) = number::parse_prefix(&self.data[self.at..]);
        if len == 0 {
            return TokenKind::Error("invalid number");
        }
        self.at += len;
        TokenKind::Number(number)
    }

    /// Returns true for what C reads as a number but JSON does not: a plus sign, hexadecimal, leading zeros, inf, nan.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.peek(0) == b'-');
        match self.peek(sign) {
            b'0' => matches!(self.peek(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            byte if byte <= b'9' => false,
            _ => {
                let start = self.at + sign;
                let letters = self.data.get(start..start + 3).unwrap_or_default();
                letters.eq_ignore_ascii_case(b"inf") || letters.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn string(&mut self) -> TokenKind<'l> {
        self.at += 1;
        let start = self.at;
        while !matches!(self.peek(0), b'"' | b'\\' | 0) {
            self.at += 1;
        }
        if self.peek(0) == b'"' {
            let text = &self.data[start..self.at];
            self.at += 1;
            return TokenKind::String(Cow::Borrowed(text));
        }
        let mut text = self.data[start..self.at].to_vec();
        loop {
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return TokenKind::String(Cow::Owned(text));
                }
                0 => return TokenKind::Error("unexpected end of string"),
                b'\\' => {
                    if let Err(reason) = self.escape(&mut text) {
                        return TokenKind::Error(reason);
                    }
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.peek(1) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => {
                let (character, len) = self.unicode().ok_or("invalid unicode escape code")?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += len;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    /// Reads `\uXXXX`, or two of them that form a surrogate pair.
    fn unicode(&self) -> Option<(char, usize)> {
        let first = self.hex4(2)?;
        if first & 0xF800 != 0xD800 {
            return Some((char::from_u32(first)?, 6));
        }
        if first & 0x400 != 0 || self.peek(6) != b'\\' || self.peek(7) != b'u' {
            return None;
        }
        let second = self.hex4(8)?;
        if second & 0xFC00 != 0xDC00 {
            return None;
        }
        Some((
            char::from_u32((((first & 0x3FF) << 10) | (second & 0x3FF)) + 0x10000)?,
            12,
        ))
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |value, digit| {
            Some(value * 16 + char::from(self.peek(ahead + digit)).to_digit(16)?)
        })
    }
}
