//! Lengths of time and sizes on the command line, written as in the settings.

use nagaya_config::{Raw, Value};

/// Reads a length of time such as `1m30s`, or a size such as `64mb`.
pub(crate) fn with_unit<T: Value>(text: &str) -> Result<T, String> {
    T::read(&Raw::Words(text.to_owned())).ok_or_else(|| format!("must be {}", T::KIND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lengths_need_their_unit() {
        assert_eq!(with_unit("1m30s"), Ok(Duration::from_secs(90)));
        assert!(with_unit::<Duration>("90").is_err());
        assert_eq!(with_unit("1kb"), Ok(nagaya_config::ByteSize(1024)));
    }
}
