//! `GET /v1/room/tags/{tag}/export`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use nagaya_keyspace::residency::TagPlace;
use nagaya_tiering::cold::{ColdError, ColdTier, Row};

use super::handlers::{nowhere, tag_of};
use crate::api::AdminState;
use crate::http::Problem;
use crate::room::tools::export_line;

/// Exports at a time. Each holds its tag's values until its client has read them.
pub(crate) const EXPORTS_MAX: usize = 2;

/// All keys of a tag as `nagaya room export` writes them, to be kept as a file.
pub(super) async fn export(State(state): State<Arc<AdminState>>, uri: Uri) -> Result<Response, Problem> {
    let tag = tag_of(&uri)?;
    let Ok(permit) = Arc::clone(&state.exports).try_acquire_owned() else {
        let detail = format!("{EXPORTS_MAX} exports are being read already; try again later");
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        return Err(problem.kind("exports-busy").retry_after(1));
    };
    let name = tag.clone();
    let inside = state.room.inside(move |server| {
        // A tag that was just erased may still have rows in the cold tier.
        let Some((stats, _)) = server.keyspace.tag_figures(&name)? else {
            return Ok(Vec::new());
        };
        match (stats.place, server.keyspace.tiering.get()) {
            (TagPlace::Disk, Some(tiering)) => Ok(rows_at_rest(&*tiering.cold, &name)?),
            _ => Ok(server.keyspace.tag_rows_in_memory(&name)?),
        }
    });
    let rows = match inside.await {
        Some(rows) => rows?,
        None => {
            let wait: [&[u8]; 3] = [b"ROOM.WAITCOLD", b"10000", b"ALL"];
            state.room.call_apart(&wait).await?;
            let name = tag.clone();
            let at_rest = state.room.cold(move |cold| rows_at_rest(cold, &name));
            at_rest.await.unwrap_or(Ok(Vec::new()))?
        }
    };
    let now_ms = state.clock.unix_ms();
    let live = move |row: &Row| row.value.expires_at_ms.is_none_or(|at_ms| at_ms >= now_ms);
    let mut rows = rows.into_iter().filter(live).peekable();
    if rows.peek().is_none() {
        return Err(nowhere(&tag));
    }
    let name = tag.clone();
    // Written as they are read; the permit goes with the last of them.
    let lines = rows.map(move |row| {
        let _held = &permit;
        Ok::<_, std::convert::Infallible>(export_line(0, &name, &row, false).to_string() + "\n")
    });
    let mut response = Body::from_stream(stream::iter(lines)).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    headers.insert(header::CONTENT_DISPOSITION, attachment(&tag));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn rows_at_rest(cold: &dyn ColdTier, tag: &[u8]) -> Result<Vec<Row>, ColdError> {
    let read = cold.read(&[tag])?.into_iter().next().flatten();
    Ok(read.map(|loaded| loaded.rows).unwrap_or_default())
}

/// A file name of harmless letters.
fn attachment(tag: &[u8]) -> HeaderValue {
    let name: String = tag
        .iter()
        .take(60)
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(*byte),
            _ => '_',
        })
        .collect();
    let value = format!("attachment; filename=\"{name}.jsonl\"");
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("attachment"))
}
