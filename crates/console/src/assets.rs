//! The stylesheet, the script and the icon, which are part of the binary.
//!
//! Their names carry a hash of what is in them, so browsers may keep them for good and still get the new ones.

use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

struct Asset {
    path: String,
    media_type: &'static str,
    bytes: &'static [u8],
}

impl Asset {
    fn new(stem: &str, ending: &str, media_type: &'static str, bytes: &'static [u8]) -> Asset {
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        let hash: String = hash[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        Asset {
            path: format!("/assets/{stem}.{hash}.{ending}"),
            media_type,
            bytes,
        }
    }
}

/// The frame and what all pages share, then what belongs to some of them.
const STYLES: &str = concat!(
    include_str!("../assets/console.css"),
    include_str!("../assets/parts.css")
);

static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console", "css", "text/css; charset=utf-8", STYLES.as_bytes()));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "console",
        "js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/console.js"),
    )
});
static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "icon",
        "svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    )
});

pub(crate) fn style_path() -> &'static str {
    &STYLE.path
}

pub(crate) fn script_path() -> &'static str {
    &SCRIPT.path
}

pub(crate) fn icon_path() -> &'static str {
    &ICON.path
}

/// Serves what is under `/assets/`.
pub(crate) fn serve(path: &str) -> Response {
    let all: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    let Some(asset) = all.into_iter().find(|asset| asset.path == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        ),
    ];
    (headers, asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_may_be_kept_for_good_under_its_own_name_only() {
        let kept = serve(style_path());
        assert_eq!(kept.status(), 200);
        assert!(
            kept.headers()[header::CACHE_CONTROL]
                .to_str()
                .unwrap()
                .contains("immutable")
        );
        assert_eq!(serve("/assets/console.000000000000.css").status(), 404);
    }

    #[test]
    fn assets_name_no_other_place() {
        for asset in [&STYLE, &SCRIPT] {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("@import"));
        }
    }
}
