//! Errors on their way from Rust into Lua.

use std::borrow::Cow;
use std::ffi::CStr;

/// How a library function fails. Raised by `enter` once the function's frame is gone.
#[derive(Debug)]
pub(crate) enum Raise {
    /// A message that Lua prefixes with the caller's `chunk:line:`.
    Located(Cow<'static, str>),
    /// "bad argument #n to 'f' (text)".
    Argument(i32, Cow<'static, str>),
    /// "bad argument #n to 'f' (x expected, got y)".
    Type(i32, &'static CStr),
    /// A table `{err = text}`, the shape in which Redis raises; text without a code gets `ERR`.
    Reply(Cow<'static, [u8]>),
    /// Whatever value is on top of the stack.
    Top,
    /// The memory limit was passed.
    Memory,
    /// The host asked to end the script; the text is in the context.
    Killed,
}

impl Raise {
    pub(crate) fn located(text: impl Into<Cow<'static, str>>) -> Raise {
        Raise::Located(text.into())
    }

    pub(crate) fn reply(text: &'static str) -> Raise {
        Raise::Reply(Cow::Borrowed(text.as_bytes()))
    }
}
