//! Cursors of listings: opaque to clients, validated when they come back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nagaya_jobs::JobId;

use crate::problem::Problem;

/// Tags a cursor of jobs, to reject other input.
const JOBS: u8 = 1;

pub(crate) fn write(id: JobId) -> String {
    let mut bytes = [0; 9];
    bytes[0] = JOBS;
    bytes[1..].copy_from_slice(&id.get().to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn read(text: &str) -> Result<JobId, Problem> {
    let mut bytes = [0; 9];
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok();
    let number = i64::from_be_bytes(bytes[1..].try_into().expect("8 bytes"));
    let id = JobId::new(number).filter(|_| length == Some(9) && bytes[0] == JOBS);
    id.ok_or_else(|| Problem::bad_request("the cursor is none that this server gave out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_job() {
        let id = JobId::new(1 << 60).unwrap();
        assert_eq!(read(&write(id)).unwrap(), id);
        for bad in ["", "x", "AAAAAAAAAAAA", "17", &write(id)[1..], "é"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
