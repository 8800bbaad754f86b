//! Errors of the admin API as problem documents.

pub(crate) use nagaya_http_kit::Problem;
use nagaya_http_kit::problem;

/// How much of a client's own text is repeated in a response, in characters.
const ECHO_MAX: usize = 200;

/// Shortens a client's text for repeating it.
pub(crate) fn echo(text: &str) -> String {
    problem::echo(text, ECHO_MAX)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use nagaya_http_kit::testing::transcripts;

    use super::*;

    #[test]
    fn responses_are_as_recorded() {
        let problems = [400, 403, 404, 405, 413, 500, 502, 503]
            .map(|status| Problem::new(StatusCode::from_u16(status).unwrap(), "no \"あ\"\n"));
        let mut text = transcripts(problems.map(Problem::into_response));
        text.push_str(&echo(&"あ".repeat(200)));
        text.push('\n');
        text.push_str(&echo(&"あ".repeat(201)));
        text.push('\n');
        assert_eq!(text, include_str!("problem.golden"));
    }
}
