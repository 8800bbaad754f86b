//! DEBUG PROTOCOL: one reply of every type, for the tests of clients.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::Proto;

use super::Reply;

/// DEBUG PROTOCOL type
pub(super) fn protocol(ctx: &mut Ctx<'_, '_>) -> Reply {
    let name = ctx.key(2).to_ascii_lowercase();
    let resp3 = ctx.session.proto() == Proto::Resp3;
    let out = &mut *ctx.out;
    match name.as_slice() {
        b"string" => out.bulk_str("Hello World"),
        b"integer" => out.int(12345),
        #[allow(
            clippy::approx_constant,
            reason = "not the number pi, but the sample that Redis sends"
        )]
        b"double" => out.double(3.141),
        b"bignum" => out.big_number("1234567999999999999999999999999999999"),
        b"null" => out.nil(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|number| out.int(number));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|number| out.int(number));
        }
        b"map" => {
            out.map(3);
            for number in 0..3 {
                out.int(number);
                out.bool(number == 1);
            }
        }
        b"attrib" => {
            if resp3 {
                out.attribute(1);
                out.bulk_str("key-popularity");
                out.array(2);
                out.bulk_str("key:123");
                out.int(90);
            }
            out.bulk_str("Some real reply following the attribute");
        }
        b"push" => {
            if !resp3 {
                return Err(CommandError::err("RESP2 is not supported by this command"));
            }
            out.push(2);
            out.bulk_str("server-cpu-usage");
            out.int(42);
            out.bulk_str("Some real reply following the push reply");
        }
        b"true" => out.bool(true),
        b"false" => out.bool(false),
        b"verbatim" => out.verbatim("txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(CommandError::err(
                "Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
